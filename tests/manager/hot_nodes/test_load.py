from typing import Any

import pytest

from crds.colocation import ColocationStrategy
from manager.hot_nodes.load import HotSettings, Load
from manager.inputs import Resource
from tests.support.objects import Json, node, node_inputs, report, resources, strategy

GIB = 1 << 30


def _settings(**fields: Any) -> HotSettings:  # noqa: ANN401 - fields of hotNodes
    return HotSettings.of(strategy(hotNodes={"mode": "prefer", **fields}))


def _load(metric: Json | None, the_node: Json | None = None, **fields: Any) -> Load:  # noqa: ANN401
    return Load.of(node_inputs(the_node or node(cpu="100", memory="100Gi"), metric), _settings(**fields))


def test_defaults_are_those_of_load_aware_scheduling() -> None:
    """Without settings hotNodes is off, with LoadAwareScheduling's thresholds."""
    settings = HotSettings.of(ColocationStrategy())
    assert settings == HotSettings()
    assert (settings.mode, settings.thresholds.cpu, settings.thresholds.memory) == ("off", 65, 95)


@pytest.mark.parametrize(
    ("usage", "heat", "cool"),
    [
        (("65", "10Gi"), 0, False),  # exactly the threshold
        (("65490m", "10Gi"), 0, False),  # rounds to 65, as LoadAwareScheduling rounds
        (("65500m", "10Gi"), 1, False),  # rounds to 66
        (("55", "85Gi"), -10, True),
        (("56", "85Gi"), -9, False),
        (("55", "86Gi"), -9, False),
        (("90", "99Gi"), 25, False),  # the hotter one counts
        ((None, "96Gi"), 1, False),  # no usage of CPU reported
        ((None, None), -100, True),  # nothing measured keeps no taint
    ],
)
def test_heat(usage: tuple[str | None, str | None], heat: int, cool: bool) -> None:  # noqa: FBT001
    """A node is hot above a threshold, and cool at the threshold less the margin."""
    load = _load(report(usage=usage))
    assert (load.heat, load.hot, load.cool) == (heat, heat > 0, cool)


def test_threshold_of_zero_checks_nothing() -> None:
    assert _load(report(usage=("99", "99Gi")), cpuThresholdPercent=0).percents == {Resource.MEMORY: 99}


def test_margin_never_keeps_the_taint_forever() -> None:
    """A margin as large as the threshold still leaves a usage at which the node is cool."""
    assert _settings(cpuThresholdPercent=20, marginPercent=50).lower(Resource.CPU) == 10


def test_raw_allocatable_counts() -> None:
    """Usage is a share of the allocatable before amplification, as in LoadAwareScheduling."""
    amplified = node(cpu="100", memory="100Gi", annotations={"node.koordinator.sh/raw-allocatable": '{"cpu": "50"}'})
    assert _load(report(usage=("40", "1Gi")), amplified).percents[Resource.CPU] == 80


def test_peak_counts_where_it_is_fresh() -> None:
    """The predicted peak counts only under `measure: peak`, and only from a fresh prediction that is ready."""
    peak: Json = {"prodPeakMetric": {"resource": resources("80", "20Gi")}}
    assert _load(report(usage=("40", "1Gi"), **peak)).percents[Resource.CPU] == 40
    assert _load(report(usage=("40", "1Gi"), **peak), measure="peak").percents == {
        Resource.CPU: 80,
        Resource.MEMORY: 20,
    }
    assert _load(report(usage=("90", "1Gi"), **peak), measure="peak").percents[Resource.CPU] == 90
    old = report(usage=("40", "1Gi"), prediction_age=901.0, **peak)
    assert _load(old, measure="peak").percents[Resource.CPU] == 40
    unready = report(usage=("40", "1Gi"), conditions=[{"type": "PredictionReady", "status": "False"}], **peak)
    assert _load(unready, measure="peak").percents[Resource.CPU] == 40


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        (None, "there is no report"),
        (report(usage=("99", "1Gi"), age=901.0), "older than degradeTimeMinutes"),
        (report(usage=("99", "1Gi"), conditions=[{"type": "Collecting", "status": "False"}]), "does not measure"),
    ],
)
def test_report_that_does_not_count(metric: Json | None, why: str) -> None:
    """Without a fresh report of a measured node nothing is known about its heat."""
    load = _load(metric)
    assert why in load.unusable
    assert not load.hot


def test_report_of_exactly_the_limit_counts() -> None:
    load = _load(report(usage=("99", "1Gi"), age=900.0))
    assert load.hot
    assert load.expires_in == 1.0
