"""Entries of nodeConfigs that compete for the same nodes."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headroom.cluster.selector import matches
from manager.config import label_sets
from manager.config.overlaps import MOST_COMPARED, compare_selectors, on_nodes
from manager.config.parse import parse_config
from manager.config.selector import faults

KEYS, VALUES = ("pool", "zone"), ("a", "b", "c")
EXPRESSIONS = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(KEYS),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(VALUES), min_size=1, max_size=3),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(KEYS),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
SELECTORS = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)),
        "matchExpressions": st.lists(EXPRESSIONS, max_size=3),
    },
)
# Every case there is: each label absent, one of those that selectors name, or another one.
NODES = [
    {name: value for name, value in zip(KEYS, values, strict=True) if value}
    for values in itertools.product(("", *VALUES, "other"), repeat=len(KEYS))
]


def _in(*values: str, key: str = "pool", operator: str = "In") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def _bare(operator: str, key: str = "pool") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator}]}


def overlap(one: Any, other: Any) -> dict[str, str] | None:  # noqa: ANN401
    """Labels that two selectors match."""
    return label_sets.overlap(label_sets.box(one), label_sets.box(other))


@pytest.mark.parametrize(
    ("one", "other", "labels"),
    [
        ({}, {}, {}),
        (None, {}, None),  # an absent selector matches nothing
        ({"matchLabels": {"pool": "a"}}, {"matchLabels": {"zone": "b"}}, {"pool": "a", "zone": "b"}),
        ({"matchLabels": {"pool": "a"}}, {"matchLabels": {"pool": "b"}}, None),
        ({"matchLabels": {"pool": "a"}}, _in("b", "a"), {"pool": "a"}),
        ({"matchLabels": {"pool": "a"}}, _in("a", operator="NotIn"), None),
        (_bare("Exists"), _bare("DoesNotExist"), None),
        (_in("a", operator="NotIn"), _bare("DoesNotExist"), {}),  # NotIn matches where the label is absent
        (_in("any", operator="NotIn"), _bare("Exists"), {"pool": "any-1"}),
        (
            _in("a"),
            {"matchExpressions": [*_in("a")["matchExpressions"], *_bare("DoesNotExist", "pool")["matchExpressions"]]},
            None,
        ),
    ],
)
def test_overlap_has_an_example(one: Any, other: Any, labels: dict[str, str] | None) -> None:  # noqa: ANN401
    """Two selectors overlap exactly when some labels match both, and those are shown."""
    assert overlap(one, other) == labels
    assert (overlap(other, one) is None) == (labels is None)


@given(SELECTORS, SELECTORS)
def test_overlap_is_exact(one: dict[str, Any], other: dict[str, Any]) -> None:
    """The decision agrees with trying every node that can be told apart, and the example matches both."""
    assert not faults(one, "s")
    labels = overlap(one, other)
    assert (labels is not None) == any(matches(one, node) and matches(other, node) for node in NODES)
    assert labels is None or (matches(one, labels) and matches(other, labels))


@given(SELECTORS, st.lists(SELECTORS, max_size=3))
def test_remainder_is_exact(own: dict[str, Any], earlier: list[dict[str, Any]]) -> None:
    """Earlier selectors cover one exactly when no node is left for it, and what is left is not theirs."""
    box = label_sets.box(own)
    if box is None:
        assert not any(matches(own, node) for node in NODES)
        return
    boxes = [each for each in map(label_sets.box, earlier) if each is not None]
    left = label_sets.remainder(box, boxes)
    alone = [node for node in NODES if matches(own, node) and not any(matches(each, node) for each in earlier)]
    assert (left is not None) == bool(alone)
    if left is not None:
        labels = label_sets.example(left)
        assert matches(own, labels)
        assert not any(matches(each, labels) for each in earlier)


def _told(*entries: dict[str, Any]) -> tuple[list[str], list[str]]:
    warnings, hints = compare_selectors(entries)
    return [str(each) for each in warnings], [str(each) for each in hints]


def test_covered_entry_is_warned_of() -> None:
    """An entry that never applies, because earlier ones take all of its nodes, is told apart from a mere overlap."""
    everything, gpu = {"name": "all", "nodeSelector": {}}, {"name": "gpu", "nodeSelector": _in("gpu")}
    assert _told(everything, gpu) == (
        [
            (
                "nodeConfigs[1]: can never apply: every node that it matches matches nodeConfigs[0] all first; "
                "move it up, or narrow the other"
            )
        ],
        [],
    )
    assert _told(gpu, everything) == (
        [],
        ["nodeConfigs[1]: a node with labels pool=gpu matches nodeConfigs[0] gpu too, which comes first and applies"],
    )


def test_covered_by_several() -> None:
    """Several earlier entries together can cover one that none of them covers alone."""
    pools = [{"name": name, "nodeSelector": _in(name)} for name in ("a", "b")]
    warnings, _ = _told(*pools, {"name": "both", "nodeSelector": _in("a", "b")})
    assert "matches nodeConfigs[0] a and nodeConfigs[1] b first" in warnings[0]
    assert _told(*pools, {"name": "more", "nodeSelector": _in("a", "b", "c")})[0] == []


def test_contradiction_is_warned_of() -> None:
    """A selector that nothing can match is said to be one."""
    warnings, hints = _told({"name": "x", "nodeSelector": {"matchLabels": {"pool": "a"}, **_bare("DoesNotExist")}})
    assert warnings == ["nodeConfigs[0].nodeSelector: can match no node: its requirements contradict each other"]
    assert hints == []


def test_names_are_wanted() -> None:
    """Entries of the same name, or of none, make messages unclear."""
    a, b = {"nodeSelector": _in("a")}, {"nodeSelector": _in("b")}
    assert _told({"name": "x", **a}, {"name": "x", **b})[0] == [
        "nodeConfigs[1].name: nodeConfigs[0] has the same name: give each its own, so that messages are clear"
    ]
    assert _told(a)[1] == ["nodeConfigs[0]: has no name: give it one, so that events and explain can name it"]


def test_many_entries_are_bounded() -> None:
    """Thousands of entries that all overlap are compared no further than a limit, and that is said."""
    entries = [{"name": f"e{i}", "nodeSelector": {"matchLabels": {f"l{i}": "x"}}} for i in range(MOST_COMPARED + 50)]
    _, hints = _told(*entries)
    assert len(hints) == 21
    assert hints[-1] == "nodeConfigs: only the first 100 entries are compared for overlaps"


def test_live_nodes_that_match_two() -> None:
    """Live nodes that match two entries are named, few of many, with the entry that applies there."""
    text = json.dumps(
        {
            "nodeConfigs": [
                {"name": "gpu", "nodeSelector": _bare("Exists", "gpu")},
                {"name": "bad", "nodeSelector": {}, "mode": "x"},
                {"name": "zone-a", "nodeSelector": {"matchLabels": {"zone": "a"}}},
            ]
        }
    )
    config = parse_config(text).config
    assert config is not None
    nodes = [(f"n{i}", {"zone": "a", "hostname": f"n{i}", **({"gpu": "y"} if i % 2 else {})}) for i in range(14)]
    found = on_nodes(config, nodes)
    assert [str(each) for each in found] == [
        (
            "nodeConfigs[2] zone-a matches 7 nodes (n1, n11, n13, n3, n5 and 2 more) too, "
            "but nodeConfigs[0] gpu comes first and applies there"
        )
    ]
    assert on_nodes(config, [("n1", {"zone": "a"})]) == ()


def test_each_selector_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of thousands of names are compared in pairs, and not read again for each pair."""
    read, box = list[Any](), label_sets.box

    def counted(selector: Any) -> label_sets.Box | None:  # noqa: ANN401
        read.append(selector)
        return box(selector)

    monkeypatch.setattr(label_sets, "box", counted)
    entries = [{"name": f"e-{n}", "nodeSelector": {"matchLabels": {"pool": f"p-{n % 20}"}}} for n in range(40)]
    assert compare_selectors(entries)[0]
    assert len(read) == len(entries)
