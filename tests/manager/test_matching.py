"""Hundreds of entries and thousands of nodes: what is found is exact, and what is looked at is little."""

import gc
import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.codec import from_json
from crds.colocation import ColocationConfig
from crds.names import ANNOTATION_COLOCATION_STRATEGY, LABEL_CPU_RECLAIM_RATIO
from headroom.cluster.selector import matches
from manager.config import changes, matching, merge
from manager.config.changes import NodeMetadata, compare, differences
from manager.config.matching import matching_entries
from manager.config.overlaps import on_nodes, overlaps
from manager.config.parse import parse_config, parse_strategy
from tests.manager.test_changes import ANNOTATIONS, CONFIGS, LABELS

NODES, ENTRIES = 1000, 100
KEYS, VALUES = st.sampled_from(["pool", "zone", "arch"]), st.sampled_from(["a", "b", ""])
EXPRESSIONS = st.one_of(
    st.fixed_dictionaries(
        {"key": KEYS, "operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(VALUES, min_size=1, max_size=3)}
    ),
    st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
)
SELECTORS = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(KEYS, VALUES, max_size=2),
        "matchExpressions": st.lists(EXPRESSIONS, max_size=3),
    },
)


def _config(document: dict[str, Any]) -> ColocationConfig:
    config = parse_config(json.dumps(document)).config
    assert config is not None
    return config


def _large(threshold: int) -> ColocationConfig:
    """A configuration in which each hundredth of the nodes has an entry of its own."""
    entries = [
        {"name": f"e{number}", "nodeSelector": {"matchLabels": {"pool": f"p{number}"}}, "enable": True}
        for number in range(ENTRIES)
    ]
    return _config({"enable": True, "midCPUThresholdPercent": threshold, "nodeConfigs": entries})


SETTINGS = [
    NodeMetadata(f"n{number}", {"pool": f"p{number % ENTRIES}", "kubernetes.io/hostname": f"n{number}"}, {})
    for number in range(NODES)
]


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Any) -> None:  # noqa: ANN401
        self._function, self.calls = function, 0

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401
        """Call it."""
        self.calls += 1
        return self._function(*args)


@given(st.lists(st.one_of(st.none(), SELECTORS), max_size=6), st.dictionaries(KEYS, VALUES))
def test_index_finds_what_selectors_match(selectors: list[dict[str, Any] | None], labels: dict[str, str]) -> None:
    """The entries that an index finds are those that match one by one, in their order."""
    entries = [{"nodeSelector": each} if each is not None else {} for each in selectors]
    config = _config({"nodeConfigs": entries})
    wanted = tuple(i for i, e in enumerate(config.node_configs or ()) if matches(e.node_selector, labels))
    assert matching_entries(config, labels) == wanted


@given(CONFIGS, st.lists(st.tuples(LABELS, ANNOTATIONS), min_size=1, max_size=6))
def test_nodes_leave_no_trace_in_shared_strategies(
    document: dict[str, Any], nodes: list[tuple[dict[str, str], dict[str, str]]]
) -> None:
    """A node's strategy is the same whichever nodes were looked at before."""
    parse_config.cache_clear()
    shared = _config(document)
    views = [merge.effective_strategy(shared, *node) for node in nodes + nodes[::-1]]
    for node, effective in zip(nodes + nodes[::-1], views, strict=True):
        parse_config.cache_clear()
        assert merge.effective_strategy(_config(document), *node) == effective


def test_large_edit_looks_at_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit under thousands of nodes builds a strategy for each kind of node, not for each node and entry."""
    asked, built = Counted(matches), Counted(from_json)
    monkeypatch.setattr(matching, "matches", asked)
    monkeypatch.setattr(merge, "from_json", built)
    (change,) = compare(_large(50), _large(60), SETTINGS)
    assert len(change.nodes) == NODES
    assert asked.calls <= 2 * NODES
    assert built.calls <= 2 * ENTRIES
    assert on_nodes(_large(50), ((each.name, each.labels) for each in SETTINGS)) == ()
    assert asked.calls <= 3 * NODES


def test_words_of_a_node_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node's annotation is judged when it is new, not each time that the node is looked at."""
    parsed = Counted(parse_strategy)
    monkeypatch.setattr(merge, "parse_strategy", parsed)
    config, annotations = _large(50), {ANNOTATION_COLOCATION_STRATEGY: '{"midUnallocatedPercent": 7}'}
    for _ in range(100):
        effective = merge.effective_strategy(config, {LABEL_CPU_RECLAIM_RATIO: "0.5"}, annotations)
    assert (effective.strategy.mid_unallocated_percent, effective.strategy.cpu_reclaim_threshold_percent) == (7, 50)
    assert parsed.calls == 1


def test_nodes_that_change_alike_share_what_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes with words of their own are compared one by one; nothing is left to do for all, or kept of all, at once."""
    monkeypatch.setattr(merge, "_MOST_VIEWS", 8)
    monkeypatch.setattr(changes, "_MOST_KNOWN", 8)
    own = [
        NodeMetadata(f"n{number}", {}, {ANNOTATION_COLOCATION_STRATEGY: f'{{"midStaticCPUReservedPercent": {number}}}'})
        for number in range(100)
    ]
    views = _alive()
    found = list(differences(_config({"midUnallocatedPercent": 1}), _config({"midUnallocatedPercent": 2}), own))
    assert [name for name, _ in found] == [each.name for each in own]
    assert len({id(fields) for _, fields in found}) == 1
    assert [each.path for each in found[0][1]] == ["midUnallocatedPercent"]
    assert _alive() - views < 50


def _alive() -> int:
    gc.collect()
    return sum(isinstance(each, merge.EffectiveStrategy) for each in gc.get_objects())


class _Indexes(list[int]):
    """The indexes of 50 entries, which can be told how often somebody went through those that do not apply."""

    def __init__(self, calls: Counted) -> None:
        super().__init__(range(50))
        self._calls = calls

    def __hash__(self) -> int:  # type: ignore[override]
        return 0

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401
        """A part of them."""
        if isinstance(index, slice):
            self._calls(0)
        return super().__getitem__(index)


def test_kinds_of_nodes_are_counted_not_nodes() -> None:
    """Entries that all match all nodes are paired for each kind of node, not for each node."""
    config = _config({"nodeConfigs": [{"name": f"e{index:02}", "nodeSelector": {}} for index in range(50)]})
    calls = Counted(range)
    indexes = cast("Any", _Indexes(calls))
    found = overlaps(config, [(f"n{number:04}", indexes) for number in reversed(range(NODES))])
    assert calls.calls <= 1
    assert {(each.wins, each.loses) for each in found} == {
        ("nodeConfigs[0] e00", f"nodeConfigs[{index}] e{index:02}") for index in range(1, 50)
    }
    assert {each.nodes for each in found} == {tuple(f"n{number:04}" for number in range(NODES))}
