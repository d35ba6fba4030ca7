"""Hundreds of entries and thousands of nodes: what is found is exact, and what is looked at is little."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.codec import from_json
from crds.colocation import ColocationConfig
from headroom.cluster.selector import matches
from manager.config import matching, merge
from manager.config.changes import NodeMetadata, compare
from manager.config.matching import matching_entries
from manager.config.overlaps import on_nodes
from manager.config.parse import parse_config
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
    def __init__(self, function: Any) -> None:  # noqa: ANN401
        self._function, self.calls = function, 0

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401
        self.calls += 1
        return self._function(*args)


@given(st.lists(st.one_of(st.none(), SELECTORS), max_size=6), st.dictionaries(KEYS, VALUES))
def test_index_has_what_selectors_match(selectors: list[dict[str, Any] | None], labels: dict[str, str]) -> None:
    entries = [{"nodeSelector": each} if each is not None else {} for each in selectors]
    config = _config({"nodeConfigs": entries})
    wanted = tuple(i for i, e in enumerate(config.node_configs or ()) if matches(e.node_selector, labels))
    assert matching_entries(config, labels) == wanted


@given(CONFIGS, st.lists(st.tuples(LABELS, ANNOTATIONS), min_size=1, max_size=6))
def test_strategy_does_not_depend_on_nodes_reconciled_before(
    document: dict[str, Any], nodes: list[tuple[dict[str, str], dict[str, str]]]
) -> None:
    parse_config.cache_clear()
    shared = _config(document)
    views = [merge.effective_strategy(shared, *node) for node in nodes + nodes[::-1]]
    for node, effective in zip(nodes + nodes[::-1], views, strict=True):
        parse_config.cache_clear()
        assert merge.effective_strategy(_config(document), *node) == effective


def test_large_edit_builds_a_strategy_for_kinds_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, built = Counted(matches), Counted(from_json)
    monkeypatch.setattr(matching, "matches", asked)
    monkeypatch.setattr(merge, "from_json", built)
    (change,) = compare(_large(50), _large(60), SETTINGS)
    assert len(change.nodes) == NODES
    assert asked.calls <= 2 * NODES
    assert built.calls <= 2 * ENTRIES
    assert on_nodes(_large(50), ((each.name, each.labels) for each in SETTINGS)) == ()
    assert asked.calls <= 3 * NODES


def _in(*values: str, key: str = "pool", operator: str = "In") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def _bare(operator: str, key: str = "pool") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator}]}


def _told(*entries: dict[str, Any]) -> tuple[list[str], list[str]]:
    parsed = parse_config(json.dumps({"nodeConfigs": entries}))
    return [str(each) for each in parsed.warnings], [str(each) for each in parsed.hints]


def test_entries_without_a_name_of_their_own_are_named() -> None:
    a, b = {"nodeSelector": _in("a")}, {"nodeSelector": _in("b")}
    assert _told({"name": "x", **a}, {"name": "x", **b})[0] == [
        "nodeConfigs[1].name: nodeConfigs[0] has the same name: give each its own, so that messages are clear"
    ]
    assert _told(a)[1] == ["nodeConfigs[0]: has no name: give it one, so that events and explain can name it"]


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
