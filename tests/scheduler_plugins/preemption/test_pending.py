"""The pods that wait for resources, the holds that the watch has shown, and the argument `reclaim`."""

from typing import Any

import pytest

from scheduler_plugins.arguments import ArgumentError, decode
from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling
from scheduler_plugins.preemption.pending import Pending, is_about_resources, refusal_of
from scheduler_plugins.preemption.selection.context import BudgetsRule
from scheduler_plugins.preemption.settings import RANGES, OverMaxRule, PreemptionSettings
from scheduler_plugins.profile.registry import build
from scheduler_plugins.quota.hold import Hold

OURS = "headroom-scheduler"
REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}

Json = dict[str, Any]


def pod(uid: str = "u", *, hold: Hold | None = None, condition: Json | None = None, **spec: Any) -> Json:  # noqa: ANN401
    made: Json = {"metadata": {"uid": uid}, "spec": {"schedulerName": OURS, **spec}, "status": {}}
    made["status"]["conditions"] = [REFUSED if condition is None else condition]
    if hold is not None:
        made["metadata"]["annotations"] = hold.annotations
        made["status"]["conditions"].append(hold.condition)
    return made


@pytest.fixture
def bound() -> list[str]:
    return []


@pytest.fixture
def pending(bound: list[str]) -> Pending:
    return Pending(frozenset({OURS}), bound.append)


def test_refused_pod_waits(pending: Pending) -> None:
    pending.put_pod(pod())
    assert list(pending.waiting) == ["u"]
    assert pending.changed.is_set()


@pytest.mark.parametrize(
    "other",
    [
        pod(schedulingGates=[{"name": "later"}]),
        pod(condition={**REFUSED, "status": "True"}),
        pod(condition={**REFUSED, "reason": "SchedulingGated"}),
        pod(condition={**REFUSED, "type": "Ready"}),
        pod(schedulerName="default-scheduler"),
        {**pod(), "metadata": {"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": {"uid": "u"}},
    ],
    ids=["gated", "scheduled", "not refused", "no verdict", "another scheduler's", "being deleted", "bare"],
)
def test_other_pods_do_not_wait(pending: Pending, other: Json) -> None:
    pending.put_pod(other)
    assert not pending.waiting


def test_waits_no_longer(pending: Pending) -> None:
    for uid in ("bound", "gone", "tried", "stays"):
        pending.put_pod(pod(uid))
    pending.put_pod(pod("bound", nodeName="n1"))
    pending.delete_pod("gone")
    pending.put_pod(pod("tried", condition={**REFUSED, "reason": "SchedulerError"}))
    assert list(pending.waiting) == ["stays"]


def test_holds_are_shown(pending: Pending, bound: list[str]) -> None:
    first, second = Hold("n1", 1.0, ("v",)), Hold("n2", 2.0, ("w",), 2)
    pending.put_pod(pod(hold=first))
    assert pending.shown == {"u": first}
    pending.changed.clear()
    pending.put_pod(pod(hold=first))
    assert not pending.changed.is_set()  # nothing new
    pending.put_pod(pod(hold=second))
    assert pending.shown == {"u": second}
    assert pending.changed.is_set()
    pending.put_pod(pod(hold=second, nodeName="n2"))
    assert (pending.shown, bound) == ({}, ["u"])
    pending.put_pod(pod(hold=second))
    pending.put_pod(pod())
    assert (pending.shown, bound) == ({}, ["u"])  # it was withdrawn


def test_holds_of_other_replicas(pending: Pending) -> None:
    pending.put_pod(pod(hold=Hold("n1", 1.0, ("v",)), schedulerName="another"))
    assert not pending.shown


@pytest.mark.parametrize(
    ("reasons", "short"),
    [
        ("1 Insufficient cpu", True),
        ("1 Insufficient cpu, 2 Insufficient nvidia.com/gpu, 1 Too many pods", True),
        ("1 ElasticQuota a/q: cpu used 6 + requested 1 > max 6 (min 4, sum of min 10), 2 Insufficient cpu", True),
        ("1 node(s) had untolerated taint {a: b, c}, 1 node(s) resources reserved for a preempting pod", True),
        ("1 node(s) had volume node affinity conflict, 2 Insufficient cpu", False),
        ("3 node(s) didn't find available persistent volumes to bind", False),
        ("pod has unbound immediate PersistentVolumeClaims", False),
        ("", False),
    ],
)
def test_short_of_resources(reasons: str, short: bool) -> None:  # noqa: FBT001 - a table
    ends = (". no new claims to deallocate, preemption: 0/3 nodes are available: 3 x.", ". preemption: 0/3 y.", ".")
    for end in ends:
        condition = {**REFUSED, "message": f"0/3 nodes are available: {reasons}{end}"}
        assert is_about_resources(refusal_of(pod(condition=condition))) == short
    assert not is_about_resources("Unschedulable")


def test_defaults() -> None:
    settings = decode(CapacityScheduling, {}, "args").reclaim
    assert settings == PreemptionSettings(
        enabled=True,
        dry_run=False,
        disruption_budgets=BudgetsRule.RESPECT,
        over_max=OverMaxRule.REPORT,
        scheduler_names=(),
        hold_seconds=120,
        evictions_per_second=10,
        eviction_burst=50,
        back_off_seconds=60,
        longest_back_off_seconds=3600,
    )
    assert settings.problems() == ()


@pytest.mark.parametrize("name", RANGES)
def test_ranges(name: str) -> None:
    low, high = RANGES[name]
    free = {"longest_back_off_seconds": 86_400} if name == "back_off_seconds" else {"back_off_seconds": 1}
    for value, wrong in ((low, 0), (high, 0), (low - 0.001, 1), (high + 1, 1)):
        problems = PreemptionSettings(**{**free, name: value}).problems()  # type: ignore[arg-type]
        assert len([problem for problem in problems if "range" in problem.message]) == wrong


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"holdSeconds": 4}, r"args.reclaim.holdSeconds: 4 is not in the range 5 to 3600"),
        ({"disruptionBudgets": "ignore"}, "must be respect or count"),
        ({"schedulerNames": [""]}, r"args.reclaim.schedulerNames\[0\]: '' is no name of a scheduler"),
        ({"backOffSeconds": 60, "longestBackOffSeconds": 30}, "longestBackOffSeconds: 30 is less than backOffSeconds"),
        ({"dryrun": True}, 'args.reclaim.dryrun: unknown; did you mean "dryRun"'),
        ({"crossNode": True}, "args.reclaim.crossNode: crossNode was removed: all victims of a pod run on one node"),
        ({"enabled": "yes"}, "args.reclaim.enabled: 'yes' is not true or false"),
    ],
)
def test_invalid_arguments_are_reported(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        build("CapacityScheduling", {"reclaim": arguments}, "args")
