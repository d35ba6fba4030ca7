"""A node's own annotation and labels: ignored as a whole when bad, told on the Node, and followed when mended."""

from typing import Any

import pytest

from crds.colocation import ColocationConfig
from crds.names import (
    ANNOTATION_COLOCATION_STRATEGY,
    LABEL_MID_STATIC_CPU_RATIO,
)
from manager.config.merge import effective_strategy
from manager.config.parse import parse_config
from tests.support.objects import node
from tests.support.world import World


def _config(text: str) -> ColocationConfig:
    config = parse_config(text).config
    assert config is not None
    return config


def _notes(world: World) -> list[tuple[str, str]]:
    events = [each for each in world.api.written("POST", "/events") if each["reason"].startswith("NodeStrategy")]
    return [(each["reason"], each["note"]) for each in events]


async def _sees(world: World, version: int, **metadata: Any) -> None:  # noqa: ANN401 - labels or annotations
    changed = node(**metadata)
    changed["metadata"]["resourceVersion"] = str(version)
    world.has_node(changed)
    await world.reconcile()


async def test_bad_annotation_and_its_repair_have_one_event_each() -> None:
    world = World()
    bad = {ANNOTATION_COLOCATION_STRATEGY: '{"midCPUThresholdPercent": 120, "degradeTimeMinutes": 5}'}
    for version, annotations in enumerate((bad, bad, {}, bad)):
        await _sees(world, version, annotations=annotations)
    assert _notes(world) == [
        (
            "NodeStrategyInvalid",
            f"annotation {ANNOTATION_COLOCATION_STRATEGY}: ignored: midCPUThresholdPercent: must be 0 to 100, got 120",
        ),
        ("NodeStrategyValid", "annotations and labels that set the strategy of this node are valid now, or gone"),
    ]


async def test_bad_label_and_its_removal_have_an_event() -> None:
    world = World()
    await _sees(world, 1, labels={LABEL_MID_STATIC_CPU_RATIO: "half"})
    await _sees(world, 2)
    assert [reason for reason, _ in _notes(world)] == ["NodeStrategyInvalid", "NodeStrategyValid"]
    assert (
        _notes(world)[0][1] == f'label {LABEL_MID_STATIC_CPU_RATIO}: ignored: must be a ratio from 0 to 1, got "half"'
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
            '{"nodePredictPolicy": {"parameters": {"lambdaMin": 11}}}',
            "parameters.lambdaMin: must be 0 to 1 for model diversity",
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
    effective = effective_strategy(_config(config), {}, {ANNOTATION_COLOCATION_STRATEGY: annotation})
    assert message in str(effective.findings[0])
    assert effective.strategy == effective_strategy(_config(config)).strategy
