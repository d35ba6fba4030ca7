"""What another configuration would change, and the state of one as text."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crds.colocation import ColocationConfig
from crds.names import ANNOTATION_COLOCATION_STRATEGY, LABEL_MID_STATIC_CPU_RATIO
from manager.config.changes import NodeMetadata, compare
from manager.config.in_force import InForce, after_change
from manager.config.merge import effective_strategy
from manager.config.overlaps import Overlap
from manager.config.parse import parse_config
from manager.config.state import disabled_entries, summary

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
SETTINGS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
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
SELECTORS = st.fixed_dictionaries({}, optional={"pool": st.sampled_from(["a", "b"]), "zone": st.just("x")})
CONFIGS = st.builds(
    lambda cluster, entries: {
        **cluster,
        "nodeConfigs": [{**e, "nodeSelector": {"matchLabels": s}} for s, e in entries],
    },
    SETTINGS,
    st.lists(st.tuples(SELECTORS, SETTINGS), max_size=3),
)


def _config(document: dict[str, Any]) -> ColocationConfig:
    config = parse_config(json.dumps(document)).config
    assert config is not None
    return config


@given(CONFIGS, CONFIGS, st.lists(st.tuples(LABELS, ANNOTATIONS), max_size=5))
def test_groups_are_what_each_node_has(
    before: dict[str, Any], after: dict[str, Any], nodes: list[tuple[dict[str, str], dict[str, str]]]
) -> None:
    old, new = _config(before), _config(after)
    known = [NodeMetadata(f"n{i}", *node) for i, node in enumerate(nodes)]
    changes = compare(old, new, known)
    changed = {name: change.fields for change in changes for name in change.nodes}
    assert len(changed) == sum(len(change.nodes) for change in changes)
    assert len({repr(change.fields) for change in changes}) == len(changes)
    for node in known:
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
