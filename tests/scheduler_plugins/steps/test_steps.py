"""The steps of a request in both forms: compiled and in Python."""

import importlib.util
import json
import math
import random
import subprocess
import sys
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugins.steps import in_python

COMPILED = importlib.util.find_spec("scheduler_plugins.steps.compiled")
FORMS = [
    pytest.param("scheduler_plugins.steps.in_python", id="python"),
    pytest.param(
        "scheduler_plugins.steps.compiled",
        id="compiled",
        marks=pytest.mark.skipif(COMPILED is None, reason="this machine has no C compiler or no Python.h"),
    ),
]
NAMES = ["a", "b", "node-1", "node-10", "eight-by", "exactly-sixteen-", "a-name-of-more-than-sixteen-bytes", "é"]


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


def _text(names: list[Any]) -> bytes:
    """JSON as Go writes it."""
    return json.dumps(names, separators=(",", ":"), ensure_ascii=False).encode()


# Rows by names


def test_rows_of_known_names(form: ModuleType) -> None:
    index = form.NodeIndex(NAMES)
    for names in (NAMES, NAMES[::-1], [], ["b"]):
        assert index.rows(_text(names)).tolist() == [NAMES.index(name) for name in names]
        assert index.rows(msgspec.Raw(_text(names))).dtype == np.intp


@pytest.mark.parametrize(
    "text",
    [
        _text(["a", "unknown"]),
        _text(["a", "b", "a"]),
        _text(["node-"]),  # the beginning of a name
        _text(["node-100"]),  # more than a name
        _text([""]),
        _text(["a"] * 99),
        _text(["a", 1]),
        _text(["a", None]),
        b'["\xff"]',
        b"",
        b"null",
        b"{}",
        b"[",
        b'["a"',
        b'["a',
        b'["a",',
        b'["a",]',
        b'["a" "b"]',
        b'["a"]]',
        b'["a"],',
    ],
)
def test_no_rows(form: ModuleType, text: bytes) -> None:
    assert form.NodeIndex(NAMES).rows(text) is None


def test_no_node(form: ModuleType) -> None:
    assert form.NodeIndex([]).rows(b"[]").tolist() == []
    assert form.NodeIndex([]).rows(b'["a"]') is None


@pytest.mark.parametrize("text", [b'["a", "b"]', b' ["a","b"]', b'["a","b"]\n', b'["\\u0061","b"]'])
def test_other_json_is_right_or_left(form: ModuleType, text: bytes) -> None:
    """JSON that Go does not write is read later, by the names."""
    rows = form.NodeIndex(NAMES).rows(text)
    assert rows is None or rows.tolist() == [0, 1]


@given(st.lists(st.text(min_size=1, max_size=40), unique=True, max_size=300), st.randoms(use_true_random=False))
def test_both_forms_find_the_same(names: list[str], lot: random.Random) -> None:
    requested = lot.sample(names, lot.randrange(len(names) + 1))
    if lot.random() < 0.5:
        requested.insert(lot.randrange(len(requested) + 1), lot.choice([*names, "unknown", ""]))
    expected = in_python.NodeIndex(names).rows(_text(requested))
    for index in _indexes(names):
        for _ in range(2):  # a request leaves no traces for the next one
            rows = index.rows(_text(requested))
            plain = all(ord(char) >= 32 and char not in '"\\' for name in requested for char in name)
            if plain or rows is not None:
                assert (rows is None) == (expected is None)
                assert rows is None or rows.tolist() == [names.index(name) for name in requested]


@given(st.binary(max_size=60), st.integers(0, 40), st.integers(0, 40))
def test_any_bytes(noise: bytes, start: int, end: int) -> None:
    text = _text(NAMES)[:start] + noise + _text(NAMES)[end:]
    for index in _indexes(NAMES):
        rows = index.rows(text)
        assert rows is None or rows.tolist() == [NAMES.index(name) for name in json.loads(text)]


def _indexes(names: list[str]) -> list[in_python.NodeIndex]:
    forms = [in_python, *([importlib.import_module("scheduler_plugins.steps.compiled")] if COMPILED else [])]
    return [form.NodeIndex(names) for form in forms]


def test_equal_hashes() -> None:
    """A name with the hash of another one is not taken for it."""
    name = "node-of-sixteen-"
    other = _collision(name)
    for index in _indexes([name]):
        assert index.rows(_text([other])) is None
    pair = [name, other]
    for index in _indexes(pair):
        for names in (pair, [other], pair[::-1]):
            rows = index.rows(_text(names))
            assert rows is None or rows.tolist() == list(map(pair.index, names))


def _collision(name: str) -> str:
    """Another name of sixteen characters with the same hash; the hash of the compiled form, in Python."""
    first, second = name[:8].encode(), int.from_bytes(name[8:].encode(), "little")
    lot = random.Random(1)  # noqa: S311 - a repeatable test
    while True:
        start = bytes(lot.choice(b"abcdefghijklmnopqrstuvwxyz") for _ in range(8))
        end = (_after(first) ^ second ^ _after(start)).to_bytes(8, "little")
        if start != first and all(32 < char < 127 and char not in b'"\\' for char in end):
            return (start + end).decode()


def _after(word: bytes) -> int:
    value = 16 ^ int.from_bytes(word, "little")
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value = (value ^ (value >> shift)) * factor % 2**64
    return value ^ (value >> 31)


# The best of each group


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 12.5, 33.0, 50.25, 100.0]), st.integers(0, 4), st.booleans()), max_size=60
    ),
    st.integers(1, 70),
    st.booleans(),
)
@pytest.mark.parametrize("name", FORMS)
def test_best_of_groups(name: str, nodes: list[tuple[float, int, bool]], wanted: int, avoids: bool) -> None:  # noqa: FBT001 - drawn
    form = importlib.import_module(name)
    scores, groups, avoided = (list(column) for column in zip(*nodes, strict=True)) if nodes else ([], [], [])
    requested: list[int] = []

    def count(size: int) -> int:
        requested.append(size)
        return min(wanted, size)

    last = np.array(avoided, np.bool_) if avoids else None
    rows = form.best_of_groups(
        np.array(scores, np.float64), np.array(groups, np.int32), last, count, np.random.default_rng(1)
    ).tolist()

    def order(row: int) -> tuple[int, bool, float]:
        return groups[row], avoids and avoided[row], -scores[row]

    expected = [place for group in sorted(set(groups)) for place in sorted(map(order, _of(groups, group)))[:wanted]]
    assert [order(row) for row in rows] == expected
    assert len(set(rows)) == len(rows)
    assert requested == [groups.count(group) for group in sorted(set(groups))]


def _of(groups: list[int], group: int) -> list[int]:
    return [row for row, number in enumerate(groups) if number == group]


def test_lots_are_fair(form: ModuleType) -> None:
    """Each of some equal nodes comes first, second, and so on about as often."""
    generator, nodes, draws = np.random.default_rng(1), 20, 4000
    places = np.zeros((nodes, 5))
    for _ in range(draws):
        rows = form.best_of_groups(np.zeros(nodes), np.zeros(nodes, np.int32), None, lambda _: 5, generator)
        places[rows, range(5)] += 1
    expected = draws / nodes
    statistic = (np.square(places - expected) / expected).sum(axis=0)
    assert (statistic < 55).all()  # chi-squared with 19 degrees of freedom: 1 of 40,000 draws exceeds it


def test_negative_group() -> None:
    compiled = pytest.importorskip("scheduler_plugins.steps.compiled")
    with pytest.raises(ValueError, match="node 1 is in group -1"):
        compiled.best_of_groups(np.zeros(2), np.array([0, -1], np.int32), None, int, np.random.default_rng(1))


def test_groups_of_ids(form: ModuleType) -> None:
    table = np.array([[4, 7], [0, -1], [-1, 3]], np.int32)
    for ids, groups in (([1, 0, 1], [0, 4, 0]), ([], []), ([2], None), ([0, 2], None)):
        result = form.groups_of(table, np.array(ids, np.int64))
        assert (result is None) if groups is None else (result.tolist() == groups and result.dtype == np.int32)
    with pytest.raises(IndexError):
        form.groups_of(table, np.array([3]))


# Scores and limits


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.int32, np.bool_, list])
def test_weighted_mean(form: ModuleType, dtype: Any) -> None:  # noqa: ANN401 - a type
    some: Any = [0, 1, 1] if dtype is list else np.array([0, 1, 1], dtype)
    mean = form.weighted_mean([some, np.array([100.0, 50.25, 0.0])], [1.0, 3.0], 3)
    assert mean.tolist() == [75.0, 37.9375, 0.25]
    assert form.weighted_mean([np.zeros(0, np.int64)], [2.0], 0).tolist() == []
    assert form.weighted_mean([np.array([7, 100])[::-1]], [2.0], 2).tolist() == [100.0, 7.0]


@pytest.mark.parametrize("score", [-0.5, 100.5, math.nan, math.inf, -math.inf])
def test_scores_out_of_range(form: ModuleType, score: float) -> None:
    for place in range(3):
        scores = np.array([0.0, 50.0, 100.0])
        scores[place] = score
        with pytest.raises(ValueError, match="a score is outside of 0 to 100"):
            form.weighted_mean([np.zeros(3, np.int64), scores], [1.0, 1.0], 3)
    with pytest.raises(ValueError, match="outside"):
        form.weighted_mean([np.array([101])], [1.0], 1)


@pytest.mark.parametrize(
    "scores",
    [
        [np.zeros(3), np.zeros(2)],
        [np.zeros(2)],
        [np.zeros(1)],
        [np.zeros((3, 1))],
        [np.zeros(4, np.int64)],
        [np.zeros((3, 2), np.int64)],
        [7],
        [None],
    ],
)
def test_wrong_number_of_scores(form: ModuleType, scores: list[Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        form.weighted_mean(scores, [1.0] * len(scores), 3)


@given(st.data())
@pytest.mark.parametrize("name", FORMS)
def test_any_exceeds(name: str, data: st.DataObject) -> None:
    form = importlib.import_module(name)
    nodes = data.draw(st.lists(st.tuples(*[st.integers(-5, 5)] * 4), max_size=6))
    more = data.draw(st.tuples(st.integers(-5, 5), st.integers(-5, 5)))
    matrix = np.asfortranarray(np.array(nodes, np.int64).reshape(-1, 4))
    expected = any(
        amount + other > limit for a, b, c, d in nodes for amount, limit, other in ((a, c, more[0]), (b, d, more[1]))
    )
    assert form.any_exceeds(matrix[:, :2], matrix[:, 2:], np.array(more, np.int64)) is expected


@pytest.mark.parametrize("shapes", [((1, 2), (3, 2), 2), ((3, 2), (3, 1), 2), ((3, 2), (3, 2), 3)])
def test_shapes_of_limits(shapes: tuple[tuple[int, int], tuple[int, int], int]) -> None:
    compiled = pytest.importorskip("scheduler_plugins.steps.compiled")
    with pytest.raises(ValueError, match="different shapes"):
        compiled.any_exceeds(*(np.zeros(shape, np.int64) for shape in shapes))


def test_groups_and_scores_differ() -> None:
    compiled = pytest.importorskip("scheduler_plugins.steps.compiled")
    with pytest.raises(IndexError):
        compiled.best_of_groups(np.zeros(2), np.zeros(3, np.int32), None, int, np.random.default_rng(1))


def test_limits_of_any_size(form: ModuleType) -> None:
    """The largest limit accepts each amount."""
    limits = np.full((1, 2), 2**63 - 1)
    assert form.any_exceeds(np.array([[2**62, 0]]), limits, np.array([2**62, 0])) is True
    assert form.any_exceeds(np.array([[2**62 - 1, 0]]), limits, np.array([2**62, 0])) is False


# Changes of rows


@given(st.data())
@pytest.mark.parametrize("name", FORMS)
def test_change_rows(name: str, data: st.DataObject) -> None:
    form = importlib.import_module(name)
    count = data.draw(st.integers(1, 12))
    rows = data.draw(st.lists(st.integers(0, count - 1), unique=True))
    lot = np.random.default_rng(data.draw(st.integers(0, 99)))
    amounts, variance = lot.integers(-(2**60), 2**60, (count, 4)), lot.random((count, 3))
    more, more_variance = lot.integers(-(2**60), 2**60, (len(rows), 4)), lot.random((len(rows), 3))
    sign = data.draw(st.sampled_from([1, -1]))
    expected, expected_variance = amounts.copy(), variance.copy()
    for row, one, other in zip(rows, more, more_variance, strict=True):
        expected[row] += sign * one
        expected_variance[row] += sign * other
    form.change_rows(amounts, variance, np.array(rows, np.intp), more, more_variance, sign)
    assert np.array_equal(amounts, expected)
    assert np.array_equal(variance, expected_variance)


@pytest.mark.parametrize(
    ("rows", "more"),
    [([3], np.zeros((1, 2), np.int64)), ([-4], np.zeros((1, 2), np.int64)), ([0], np.zeros((1, 3), np.int64)),
     ([0, 1], np.zeros((1, 3), np.int64))],
)  # fmt: skip
def test_wrong_rows(form: ModuleType, rows: list[int], more: np.ndarray[Any, Any]) -> None:
    amounts = np.ones((3, 2), np.int64)
    with pytest.raises((IndexError, ValueError)):
        form.change_rows(amounts, np.ones((3, 1)), np.array(rows, np.intp), more, np.ones((len(rows), 1)), 1)


# The choice of a form


@pytest.mark.parametrize(("pure", "compiled"), [("1", False), ("", COMPILED is not None)])
def test_form_in_use(pure: str, *, compiled: bool) -> None:
    code = "from scheduler_plugins import steps; print(steps.COMPILED, steps.NodeIndex.__module__)"
    run = subprocess.run(
        [sys.executable, "-c", code], env={"HEADROOM_PURE_PYTHON": pure}, capture_output=True, text=True, check=True
    )
    module = "compiled" if compiled else "in_python"
    assert run.stdout.split() == [str(compiled), f"scheduler_plugins.steps.{module}"]
