"""The load ledger of a node."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.ledger import NodeLedger
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.report import NodeReport
from tests.scheduler_plugins.objects import GI, NOW, Json, node_metric, pod, pod_metric

RULES = LoadRules(factors={"cpu": 100, "memory": 100})


def _pod(name: str = "p", scheduled: float | None = -30, **spec: Any) -> PodRequest:  # noqa: ANN401 - a PodSpec
    item = pod(name, {"cpu": "10", "memory": "10Gi"}, node="n", scheduled=scheduled, **spec)
    return PodRequest.from_json(item, RULES)


def _report(**parts: Any) -> NodeReport:  # noqa: ANN401 - as node_metric
    return NodeReport.from_json(node_metric(**parts), RULES.resources)


def _ledger(report: NodeReport | None, *pods: PodRequest, rules: LoadRules = RULES) -> NodeLedger:
    ledger = NodeLedger(rules)
    ledger.receive(report)
    for item in pods:
        ledger.assign(item, NOW)
    return ledger


@pytest.mark.parametrize(
    ("scheduled", "delta"),
    [
        (-60, 0),  # the report covers one whole interval of it: measured only
        (-59, 8000),
        (10, 8000),  # scheduled after the report
    ],
)
def test_recent_pod_is_estimated(scheduled: float, delta: int) -> None:
    ledger = _ledger(_report(pods=[pod_metric()]), _pod(scheduled=scheduled))
    assert ledger.sums.node_delta[0] == delta
    assert ledger.load() == (50_000 + delta, 10 * GI + (9 * GI if delta else 0))


def test_unreported_pod_is_estimated() -> None:
    assert _ledger(_report(), _pod(scheduled=-3600)).sums.node_delta == (10_000, 10 * GI)


@pytest.mark.parametrize(
    ("usage", "delta"),
    [
        ({}, 10_000),  # an entry without amounts is no report
        ({"cpu": "0"}, 0),  # zero is
    ],
)
def test_empty_usage_is_unreported(usage: dict[str, str], delta: int) -> None:
    entry = pod_metric() | {"podUsage": {"resources": usage}}
    assert _ledger(_report(pods=[entry]), _pod(scheduled=-3600)).sums.node_delta[0] == delta


def test_missing_memory_is_estimated() -> None:
    entry = pod_metric() | {"podUsage": {"resources": {"cpu": "2"}}}
    ledger = _ledger(_report(pods=[entry]), _pod(scheduled=-3600))
    assert ledger.sums.node_delta == ledger.sums.prod_delta == ledger.sums.unreported == (0, 10 * GI)
    assert ledger.relief(ledger.pods) == (2000, 10 * GI)
    metric = node_metric(pods=[pod_metric()])
    del metric["status"]["nodeMetric"]["nodeUsage"]["resources"]["memory"]
    partly = _ledger(NodeReport.from_json(metric, RULES.resources), _pod(scheduled=-3600))
    assert (partly.load(), partly.measured()) == ((50_000, 10 * GI), (True, False))


def test_measured_above_estimate_adds_nothing() -> None:
    assert _ledger(_report(pods=[pod_metric(cpu="12", memory="1Gi")]), _pod()).sums.node_delta == (0, 9 * GI)


@pytest.mark.parametrize(("seconds", "delta"), [(3600, 0), (3601, 8000)])
def test_forced_window_extends_estimate(seconds: int, delta: int) -> None:
    rules = LoadRules(factors=RULES.factors, seconds_after_scheduled=seconds)
    item = pod(requests={"cpu": "10", "memory": "10Gi"}, node="n", scheduled=-3600)
    ledger = _ledger(_report(pods=[pod_metric()]), PodRequest.from_json(item, rules), rules=rules)
    assert ledger.sums.node_delta[0] == delta


@pytest.mark.parametrize(
    ("pod_priority", "reported", "usage", "delta"),
    [
        (9500, "koord-prod", 2000, 0),
        (9500, "koord-mid", 0, 10_000),  # the Prod sum lacks its usage: its whole estimate counts
        (7500, "koord-prod", 0, 0),  # not Prod, whatever the report's class
    ],
)
def test_prod_needs_both(pod_priority: int, reported: str, usage: int, delta: int) -> None:
    ledger = _ledger(_report(pods=[pod_metric(priority=reported)]), _pod(scheduled=-3600, priority=pod_priority))
    assert (ledger.prod_usage[0], ledger.sums.prod_delta[0]) == (usage, delta)


def test_unknown_prod_usage_is_skipped() -> None:
    assert _ledger(_report(pods=[pod_metric("elsewhere")])).prod_usage == (0, 0)


def test_nothing_measured_counts_estimates() -> None:
    assert _ledger(None, _pod(), _pod("q")).load() == (20_000, 20 * GI)
    assert _ledger(_report(cpu=None), _pod()).load() == (10_000, 10 * GI)


def test_time_of_scheduling_is_kept() -> None:
    ledger = NodeLedger(RULES)
    for later in (0, 30):
        ledger.assign(_pod(scheduled=None), NOW + later)
    assert ledger.pods["uid-p"].timestamp == NOW
    ledger.assign(_pod(scheduled=None, priority=7500), NOW + 60)
    assert ledger.pods["uid-p"].timestamp == NOW + 60


def _events(seed: int) -> list[tuple[str, Json]]:
    lot = random.Random(seed)  # noqa: S311 - a repeatable test
    events: list[tuple[str, Json]] = []
    for _ in range(30):
        name, what = lot.choice("abcd"), lot.randrange(4)
        if what == 0:
            measured = [
                pod_metric(n, priority=lot.choice(["koord-prod", "koord-mid"])) for n in "abc" if lot.random() < 0.6
            ]
            events.append(("report", node_metric(updated=lot.randrange(-90, 90), pods=measured)))
        elif what == 1:
            events.append(("unassign", {"uid": f"uid-{name}"}))
        else:
            requests = {"cpu": str(lot.randrange(1, 9))}
            events.append(("assign", pod(name, requests, node="n", scheduled=lot.randrange(-120, 30))))
    return events


@given(st.integers(0, 2**32))
def test_sums_are_independent_of_history(seed: int) -> None:
    ledger = NodeLedger(RULES)
    for kind, item in _events(seed):
        if kind == "report":
            ledger.receive(NodeReport.from_json(item, RULES.resources))
        elif kind == "unassign":
            ledger.unassign(item["uid"])
        else:
            ledger.assign(PodRequest.from_json(item, RULES), NOW)
    rebuilt = NodeLedger(RULES)
    for entry in ledger.pods.values():
        rebuilt.assign(entry.pod, entry.timestamp)
    rebuilt.update_time = ledger.update_time
    rebuilt.receive(ledger.report)
    if ledger.report is None:
        rebuilt.update_time = ledger.update_time
    assert (ledger.sums, ledger.prod_usage) == (rebuilt.sums, rebuilt.prod_usage)
