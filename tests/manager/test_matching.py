import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.codec import from_json
from crds.colocation import ColocationConfig
from crds.names import ANNOTATION_COLOCATION_STRATEGY, LABEL_MID_STATIC_CPU_RATIO
from headroom.cluster.selector import matches
from manager.config import matching, merge
from manager.config.changes import NodeMetadata, compare
from manager.config.in_force import InForce, after_change
from manager.config.matching import matching_entries
from manager.config.merge import effective_strategy
from manager.config.overlaps import Overlap, on_nodes
from manager.config.parse import parse_config
from manager.config.selector import faults
from manager.config.state import disabled_entries, summary

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
LABELS = st.fixed_dictionaries(
    {},
    optional={
        "pool": st.sampled_from(["a", "b"]),
        "zone": st.sampled_from(["x", "y"]),
        LABEL_MID_STATIC_CPU_RATIO: st.sampled_from(["0.1", "0.2", "bad"]),
    },
)
ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        ANNOTATION_COLOCATION_STRATEGY: st.sampled_from(
            ['{"enable": true}', '{"mode": "x"}', '{"nodePredictPolicy": {"parameters": {"windowDays": 1}}}']
        )
    },
)
STRATEGIES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "enable": st.booleans(),
        "degradeTimeMinutes": st.sampled_from([5, 15]),
        "midStaticCPUReservedPercent": st.sampled_from([0, 10]),
        "nodePredictPolicy": st.sampled_from(
            [{"model": "sum-max"}, {"parameters": {"windowDays": 2}}, {"safetyMarginPercent": 1}]
        ),
    },
)
LABEL_SELECTORS = st.fixed_dictionaries({}, optional={"pool": st.sampled_from(["a", "b"]), "zone": st.just("x")})
CONFIGS = st.builds(
    lambda cluster, entries: {
        **cluster,
        "nodeConfigs": [{**e, "nodeSelector": {"matchLabels": s}} for s, e in entries],
    },
    STRATEGIES,
    st.lists(st.tuples(LABEL_SELECTORS, STRATEGIES), max_size=3),
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
def test_index_agrees_with_selectors(selectors: list[dict[str, Any] | None], labels: dict[str, str]) -> None:
    entries = [{"nodeSelector": selector} if selector is not None else {} for selector in selectors]
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
    requested, built = Counted(matches), Counted(from_json)
    monkeypatch.setattr(matching, "matches", requested)
    monkeypatch.setattr(merge, "from_json", built)
    (change,) = compare(_large(50), _large(60), SETTINGS)
    assert len(change.nodes) == NODES
    assert requested.calls <= 2 * NODES
    assert built.calls <= 2 * ENTRIES
    assert on_nodes(_large(50), ((setting.name, setting.labels) for setting in SETTINGS)) == ()
    assert requested.calls <= 3 * NODES


def _in(*values: str, key: str = "pool", operator: str = "In") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def _bare(operator: str, key: str = "pool") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator}]}


def _told(*entries: dict[str, Any]) -> tuple[list[str], list[str]]:
    parsed = parse_config(json.dumps({"nodeConfigs": entries}))
    return [str(warning) for warning in parsed.warnings], [str(hint) for hint in parsed.hints]


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
    result = on_nodes(config, nodes)
    assert [str(entry) for entry in result] == [
        (
            "nodeConfigs[2] zone-a matches 7 nodes (n1, n11, n13, n3, n5 and 2 more) too, "
            "but nodeConfigs[0] gpu comes first and applies there"
        )
    ]
    assert on_nodes(config, [("n1", {"zone": "a"})]) == ()


@given(CONFIGS, CONFIGS, st.lists(st.tuples(LABELS, ANNOTATIONS), max_size=5))
def test_groups_match_each_node(
    before: dict[str, Any], after: dict[str, Any], nodes: list[tuple[dict[str, str], dict[str, str]]]
) -> None:
    old, new = _config(before), _config(after)
    metadata = [NodeMetadata(f"n{i}", *node) for i, node in enumerate(nodes)]
    changes = compare(old, new, metadata)
    changed = {name: change.fields for change in changes for name in change.nodes}
    assert len(changed) == sum(len(change.nodes) for change in changes)
    assert len({repr(change.fields) for change in changes}) == len(changes)
    for node in metadata:
        was, becomes = (effective_strategy(config, node.labels, node.annotations) for config in (old, new))
        assert (node.name in changed) == (was.strategy != becomes.strategy)
        for field in changed.get(node.name, ()):
            sources = was.sources.get(field.path, ""), becomes.sources.get(field.path, "")
            assert sources == (field.old_source, field.new_source)


def test_summary_is_bounded() -> None:
    """However much is wrong, the summary is some lines that `kubectl describe` shows in full."""
    faults = {f"unknown{i}" + "x" * 80: 1 for i in range(90)}
    bad = [{"name": "n" * 300, "nodeSelector": {}, "mode": "y" * 300} for _ in range(300)]
    overlaps = [Overlap("a" * 70, "b" * 70, tuple(f"node-{i}-{'z' * 50}" for i in range(50)))] * 40
    for document in ({"enabl": 1, "mode": 1, **faults, "nodeConfigs": bad}, {**faults, "nodeConfigs": bad}):
        text = summary(after_change(InForce(), json.dumps(document), present=True), overlaps)
        assert max(map(len, text.split("\n"))) <= 138
        assert len(text) < 10_000


def test_disabled_entry_is_named_once_by_place_and_name() -> None:
    bad = {"mode": 1, "enable": 1, "nodeSelector": {}}
    state = after_change(InForce(), json.dumps({"nodeConfigs": [{"name": "a", **bad}, {}, bad]}), present=True)
    assert (disabled_entries(state), len(state.entry_errors)) == (("nodeConfigs[0] a", "nodeConfigs[2]"), 4)


POOL_AND_ZONE = {"pool": "y", "zone": "a"}


def _expression(operator: str, *values: str, key: str = "pool") -> dict[str, Any]:
    listed = {"values": list(values)} if values else {}
    return {"matchExpressions": [{"key": key, "operator": operator, **listed}]}


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        (None, False),  # absent matches nothing
        ({}, True),  # empty matches everything
        ({"matchLabels": {"pool": "y", "zone": "a"}}, True),
        ({"matchLabels": {"pool": "y", "zone": "b"}}, False),
        (_expression("In", "x", "y"), True),
        (_expression("In", "x"), False),
        (_expression("NotIn", "x"), True),
        (_expression("NotIn", "y"), False),
        (_expression("NotIn", "y", key="absent"), True),
        (_expression("Exists"), True),
        (_expression("Exists", key="absent"), False),
        (_expression("DoesNotExist"), False),
        (_expression("DoesNotExist", key="absent"), True),
        ({"matchLabels": {"zone": "a"}, **_expression("In", "x")}, False),
    ],
)
def test_selectors_match(selector: dict[str, Any] | None, wanted: bool) -> None:  # noqa: FBT001
    assert matches(selector, POOL_AND_ZONE) is wanted
    assert selector is None or not faults(selector, "s")


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("pool=y", 's: must be an object with matchLabels or matchExpressions, got "pool=y"'),
        (
            {"pool": "y"},
            (
                "s.pool: unknown field: only matchLabels and matchExpressions are allowed: "
                'write {"matchLabels": {"pool": "y"}}'
            ),
        ),
        ({"matchLabels": {"a pool": "y"}}, 's.matchLabels: "a pool" is no name that a label can have'),
        (
            _expression("In", "not this"),
            's.matchExpressions[0]: "not this" is no value that a label can have: up to 63 letters, digits, -, _ and .',
        ),
        (
            {"matchLabels": {f"l{i}": "x" for i in range(65)}},
            "s: must have requirements on at most 64 labels, got 65",
        ),
        ({"matchLabels": {"pool": 1}}, 's.matchLabels: must map texts to texts, got {"pool": 1}'),
        ({"matchExpressions": {}}, "s.matchExpressions: must be a list, got {}"),
        ({"matchExpressions": [1]}, "s.matchExpressions[0]: must be an object with key and operator, got 1"),
        (
            {"matchExpressions": [{"key": "", "operator": "Exists"}]},
            's.matchExpressions[0].key: must be a label\'s name, got ""',
        ),
        (
            _expression("Contains", "x"),
            's.matchExpressions[0].operator: must be In, NotIn, Exists or DoesNotExist, got "Contains"',
        ),
        (_expression("In"), "s.matchExpressions[0].values: must list at least one text for In, got null"),
        (_expression("Exists", "x"), 's.matchExpressions[0].values: must be absent for Exists, got ["x"]'),
    ],
)
def test_malformed_selectors_are_named(selector: Any, message: str) -> None:  # noqa: ANN401
    assert [str(fault) for fault in faults(selector, "s")] == [message]
