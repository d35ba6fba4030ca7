import json
from typing import Any

import pytest

from crds import names
from crds.codec import to_json
from crds.colocation import DEFAULTS, ColocationConfig
from manager.config.merge import CLUSTER, DEFAULT, effective_strategy, percent_of_ratio
from manager.config.parse import parse_config
from tests.support.objects import node
from tests.support.world import World

ANNOTATION = names.ANNOTATION_COLOCATION_STRATEGY


def _config(**fields: object) -> ColocationConfig:
    parsed = parse_config(json.dumps(fields))
    assert parsed.config is not None
    return parsed.config


def test_defaults_are_complete() -> None:
    effective = effective_strategy(ColocationConfig())
    assert to_json(effective.strategy).items() >= to_json(DEFAULTS).items()
    policy = effective.strategy.node_predict_policy
    assert policy is not None
    assert (policy.model, policy.parameters) == ("coincidence", None)
    assert set(effective.sources.values()) == {DEFAULT}


def test_usual_margins_are_shown() -> None:
    """A margin that is not stated has the default of each resource's own model; a stated one stays."""
    assert _margins() == {"": (0, DEFAULT)}
    assert _margins(model="nsigma-v2") == {"": (10, DEFAULT)}
    assert _margins(memory={"model": "nsigma-v2"}) == {"": (0, DEFAULT), "memory": (10, DEFAULT)}
    assert _margins(safetyMarginPercent=3, memory={"model": "nsigma-v2"}) == {"": (3, CLUSTER)}


def _margins(**policy: object) -> dict[str, tuple[int | None, str]]:
    """Part of the policy -> its margin and where that comes from."""
    effective = effective_strategy(_config(nodePredictPolicy=policy))
    full = effective.strategy.node_predict_policy
    assert full is not None
    sources = {
        path.removeprefix("nodePredictPolicy").removesuffix("safetyMarginPercent").strip("."): source
        for path, source in effective.sources.items()
        if path.endswith(".safetyMarginPercent")
    }
    result = {"": full.safety_margin_percent}
    result |= {name: part.safety_margin_percent for name, part in (("cpu", full.cpu), ("memory", full.memory)) if part}
    return {name: (result[name], source) for name, source in sources.items()}


def test_later_layers_win() -> None:
    """Default < cluster < first matching entry < annotation < label, and each value says where it comes from."""
    config = _config(
        enable=True,
        degradeTimeMinutes=10,
        midStaticCPUReservedPercent=1,
        midUnallocatedPercent=1,
        nodeConfigs=[
            {"name": "other", "nodeSelector": {"matchLabels": {"pool": "y"}}, "midUnallocatedPercent": 99},
            {"name": "mine", "nodeSelector": {}, "midStaticCPUReservedPercent": 2, "midUnallocatedPercent": 2},
            {"name": "late", "nodeSelector": {"matchLabels": {"pool": "x"}}, "midUnallocatedPercent": 98},
        ],
    )
    labels = {"pool": "x", names.LABEL_MID_STATIC_CPU_RATIO: "0.04"}
    effective = effective_strategy(
        config, labels, {ANNOTATION: '{"midStaticCPUReservedPercent": 3, "midStaticMemoryReservedPercent": 3}'}
    )
    result = effective.strategy
    assert (result.degrade_time_minutes, effective.sources["degradeTimeMinutes"]) == (10, CLUSTER)
    assert (result.mid_unallocated_percent, effective.sources["midUnallocatedPercent"]) == (2, "nodeConfigs[1] mine")
    assert result.mid_static_memory_reserved_percent == 3
    assert effective.sources["midStaticMemoryReservedPercent"] == f"annotation {ANNOTATION}"
    assert result.mid_static_cpu_reserved_percent == 4
    assert effective.sources["midStaticCPUReservedPercent"] == f"label {names.LABEL_MID_STATIC_CPU_RATIO}"
    assert effective.sources["midPolicy"] == DEFAULT
    assert not effective.findings
    assert [str(overlap) for overlap in effective.overlaps] == [
        "nodeConfigs[2] late: matches too, but nodeConfigs[1] mine comes first"
    ]


@pytest.mark.parametrize("cluster", [{}, {"enable": False}])
def test_entry_or_annotation_enables_colocation(cluster: dict[str, object]) -> None:
    entry = _config(**cluster, nodeConfigs=[{"nodeSelector": {"matchLabels": {"p": "x"}}, "enable": True}])
    assert effective_strategy(entry, {"p": "x"}).strategy.enable is True
    assert effective_strategy(entry, {"p": "y"}).strategy.enable is False
    assert effective_strategy(_config(**cluster), {}, {ANNOTATION: '{"enable": true}'}).strategy.enable is True


def test_layer_overrides_only_fields_that_it_states() -> None:
    config = _config(midEviction={"mode": "on"}, nodePredictPolicy={"safetyMarginPercent": 20})
    effective = effective_strategy(config)
    eviction, policy = effective.strategy.mid_eviction, effective.strategy.node_predict_policy
    assert eviction is not None
    assert policy is not None
    assert (eviction.mode, eviction.after_seconds) == ("on", 300)
    assert (policy.safety_margin_percent, policy.model, policy.parameters) == (20, "coincidence", None)
    assert effective.sources["midEviction.mode"] == CLUSTER
    assert effective.sources["midEviction.afterSeconds"] == DEFAULT


def test_another_model_drops_arguments_and_the_same_model_keeps_them() -> None:
    config = _config(
        nodePredictPolicy={"model": "coincidence", "cpu": {"model": "max", "of": [{"model": "sum-max"}]}},
        nodeConfigs=[{"nodeSelector": {}, "nodePredictPolicy": {"cpu": {"model": "percentile"}}}],
    )
    policy = effective_strategy(config).strategy.node_predict_policy
    assert policy is not None
    assert (policy.model, policy.parameters) == ("coincidence", None)
    assert policy.cpu is not None
    assert (policy.cpu.model, policy.cpu.of) == ("percentile", None)
    entry = {"nodeSelector": {}, "nodePredictPolicy": {"model": "coincidence"}}
    cluster = {"parameters": {"windowDays": 3}}
    same = effective_strategy(_config(nodePredictPolicy=cluster, nodeConfigs=[entry])).strategy.node_predict_policy
    assert same is not None
    assert same.parameters == {"windowDays": 3}


@pytest.mark.parametrize("text", ["{", "null", '{"midCPUThresholdPercent": -5, "midUnallocatedPercent": 7}'])
def test_annotation_with_one_fault_is_ignored_whole(text: str) -> None:
    effective = effective_strategy(_config(), {}, {ANNOTATION: text})
    assert effective.strategy.mid_unallocated_percent == 0
    assert [finding.path for finding in effective.findings] == [f"annotation {ANNOTATION}"]
    assert effective.findings[0].message.startswith("ignored: ")


def test_annotation_with_an_unknown_field_applies_otherwise() -> None:
    effective = effective_strategy(_config(), {}, {ANNOTATION: '{"midCPUThresholdPercent": 12, "nope": 1}'})
    assert effective.strategy.mid_cpu_threshold_percent == 12
    assert [finding.message for finding in effective.findings] == ["nope: unknown field: ignored"]


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        ("0.29", 29),  # truncating binary fractions would give 28
        ("0.57", 57),
        ("0.005", 1),
        ("0.004", 0),
        ("1e-1", 10),
        ("1", 100),
        ("0", 0),
        ("1.5", None),
        ("-0.1", None),
        ("abc", None),
        ("", None),
        ("NaN", None),
        ("Infinity", None),
        ("1e999999999", None),
        ("0_1", None),
        ("50%", None),
        ("1e-99999999999999999999", None),
        ("٠.٥", None),  # noqa: RUF001 - digits of another script, which Python reads as numbers
    ],
)
def test_ratio_labels_round(text: str, percent: int | None) -> None:
    assert percent_of_ratio(text) == percent


def test_bad_label_is_ignored() -> None:
    labels = {names.LABEL_CPU_RECLAIM_RATIO: "80%", names.LABEL_MEMORY_RECLAIM_RATIO: "0.5"}
    effective = effective_strategy(_config(), labels)
    assert effective.strategy.cpu_reclaim_threshold_percent == 60
    assert effective.strategy.memory_reclaim_threshold_percent == 50
    assert [str(finding) for finding in effective.findings] == [
        f'label {names.LABEL_CPU_RECLAIM_RATIO}: ignored: must be a ratio from 0 to 1, got "80%"'
    ]


def _parsed(text: str) -> ColocationConfig:
    config = parse_config(text).config
    assert config is not None
    return config


def _notes(world: World) -> list[tuple[str, str]]:
    events = [
        request for request in world.api.written("POST", "/events") if request["reason"].startswith("NodeStrategy")
    ]
    return [(event["reason"], event["note"]) for event in events]


async def _sees(world: World, version: int, **metadata: Any) -> None:  # noqa: ANN401 - labels or annotations
    changed = node(**metadata)
    changed["metadata"]["resourceVersion"] = str(version)
    world.has_node(changed)
    await world.reconcile()


async def test_bad_annotation_and_its_repair_have_an_event() -> None:
    world = World()
    bad = {ANNOTATION: '{"midCPUThresholdPercent": 120, "degradeTimeMinutes": 5}'}
    for version, annotations in enumerate((bad, bad, {}, bad)):
        await _sees(world, version, annotations=annotations)
    assert _notes(world) == [
        ("NodeStrategyInvalid", f"annotation {ANNOTATION}: ignored: midCPUThresholdPercent: must be 0 to 100, got 120"),
        ("NodeStrategyValid", "annotations and labels that set the strategy of this node are valid now, or gone"),
    ]


async def test_bad_label_and_its_removal_have_an_event() -> None:
    world = World()
    await _sees(world, 1, labels={names.LABEL_MID_STATIC_CPU_RATIO: "half"})
    await _sees(world, 2)
    assert [reason for reason, _ in _notes(world)] == ["NodeStrategyInvalid", "NodeStrategyValid"]
    assert (
        _notes(world)[0][1]
        == f'label {names.LABEL_MID_STATIC_CPU_RATIO}: ignored: must be a ratio from 0 to 1, got "half"'
    )


async def test_overlap_has_no_event_of_its_nodes() -> None:
    world = World()
    world.configure('{"nodeConfigs": [{"nodeSelector": {}}, {"nodeSelector": {}}]}')
    await _sees(world, 1)
    assert _notes(world) == []


@pytest.mark.parametrize(
    ("config", "annotation", "message"),
    [
        (
            "{}",
            '{"nodePredictPolicy": {"parameters": {"windowDays": 31}}}',
            "parameters.windowDays: must be 0.01 to 30 for model coincidence",
        ),
        (
            '{"nodePredictPolicy": {"model": "diversity"}}',
            '{"enable": true, "nodePredictPolicy": {"parameters": {"n": 3}}}',
            "parameters.n: model diversity has no such parameter",
        ),
        ("{}", "enable: true", "not valid JSON: this looks like YAML"),
        ("{}", '{"enable": true, "enable": true}', "enable: given twice in the same object"),
    ],
)
def test_annotation_that_does_not_fit_layers_below_is_ignored_whole(config: str, annotation: str, message: str) -> None:
    effective = effective_strategy(_parsed(config), {}, {ANNOTATION: annotation})
    assert message in str(effective.findings[0])
    assert effective.strategy == effective_strategy(_parsed(config)).strategy


@pytest.mark.parametrize(
    ("part", "limit", "cluster", "lower"),
    [
        ("midEviction", "maxPerMinute", 10, 3),
        ("hotNodes", "maxPerMinute", 10, 3),
        ("hotNodes", "maxNodesPercent", 20, 5),
    ],
)
def test_limits_of_the_cluster_are_only_lowered(part: str, limit: str, cluster: int, lower: int) -> None:
    """An entry or an annotation may lower a limit of the whole cluster for its nodes, and never raises it."""

    def effective(number: int, *, annotated: bool) -> tuple[int, int]:
        layer = {part: {limit: number}}
        config = ColocationConfig() if annotated else _config(nodeConfigs=[{"nodeSelector": {}, **layer}])
        view = effective_strategy(config, {}, {ANNOTATION: json.dumps(layer)} if annotated else {})
        return to_json(view.strategy)[part][limit], len(view.findings)

    assert effective(lower, annotated=False) == effective(lower, annotated=True) == (lower, 0)
    assert effective(99, annotated=False) == (cluster, 0)
    assert effective(99, annotated=True) == (cluster, 1)
