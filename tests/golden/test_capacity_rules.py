"""The rules of capacity scheduling on vectors that nobody recorded: they apply where we differ, and nowhere else."""

from typing import Any, Final

import pytest

from tests.golden.runner import Outcome, judge

Json = dict[str, Any]
_SELECTORS: Final[list[Json]] = [
    {"matchLabels": {"app": "x"}},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["w", "x"]}]},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["y"]}]},
    {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}], "matchLabels": {"app": "x"}},
]


def _pod(name: str, cpu: str, priority: int, **spec: Any) -> Json:  # noqa: ANN401 - fields of a pod's spec
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu, "storage": "1"}}}]
    metadata = {"name": name, "namespace": "q1", "uid": name, "labels": {"app": "x"}}
    status = {"startTime": f"2024-01-01T00:00:{priority % 60:02}Z"}
    return {"metadata": metadata, "spec": {"containers": containers, "priority": priority, **spec}, "status": status}


def _quota(namespace: str, cpu: str) -> Json:
    return {"metadata": {"name": "q", "namespace": namespace}, "spec": {"min": {"cpu": cpu}, "max": {"cpu": cpu}}}


def _preempt(selector: Json, **spec: Any) -> Json:  # noqa: ANN401
    """A node with room for all, a quota that has none, and a budget that allows nothing."""
    return {
        "op": "preempt",
        "elasticQuotas": [_quota("q1", "4"), _quota("spare", "20")],
        "preemptor": _pod("p", "2", 1000, **spec),
        "pods": [_pod("low", "2", 10, nodeName="n1"), _pod("high", "2", 20, nodeName="n1")],
        "nodes": [{"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "16", "pods": "110"}}}],
        "podDisruptionBudgets": [
            {
                "metadata": {"name": "b", "namespace": "q1"},
                "spec": {"selector": selector},
                "status": {"disruptionsAllowed": 0},
            }
        ],
    }


def _theirs(violations: int, **post_filter: Any) -> Json:  # noqa: ANN401
    return {
        "candidates": [{"node": "n1", "victims": ["q1/low"], "numPDBViolations": violations}],
        "rejectedNodes": {},
        "postFilter": {"code": "Success", "nominatedNode": "n1", "deleted": ["q1/low"], **post_filter},
    }


@pytest.mark.parametrize("selector", _SELECTORS)
def test_budget_that_only_the_quota_breaks_is_counted_whatever_selects(selector: Json) -> None:
    """The rule reads selectors as kube-scheduler does."""
    vector = {"name": "v", "input": _preempt(selector), "expected": _theirs(0)}
    assert judge("capacity_preemption", vector).outcome is Outcome.DEVIATION


@pytest.mark.parametrize(
    "selector",
    [{}, {"matchLabels": {"app": "y"}}, {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}],
)
def test_budget_about_nobody_is_never_counted(selector: Json) -> None:
    """There neither of the two counts, so there is nothing to deviate in."""
    vector = {"name": "v", "input": _preempt(selector), "expected": _theirs(0)}
    assert judge("capacity_preemption", vector).outcome is Outcome.PASSED
    assert judge("capacity_preemption", {**vector, "expected": _theirs(1)}).outcome is Outcome.FAILED


def test_pod_that_may_not_preempt_has_candidates_and_evicts_nobody() -> None:
    """The rule changes what is counted, not who may preempt."""
    given = _preempt(_SELECTORS[0], preemptionPolicy="Never")
    expected = _theirs(0, code="Unschedulable", nominatedNode=None, deleted=[])
    assert judge("capacity_preemption", {"name": "v", "input": given, "expected": expected}).outcome is (
        Outcome.DEVIATION
    )
    wrong = {"name": "v", "input": given, "expected": _theirs(0)}
    assert judge("capacity_preemption", wrong).outcome is Outcome.FAILED


@pytest.mark.parametrize("used", [{}, {"cpu": "0"}, {"cpu": "1"}])
@pytest.mark.parametrize("operation", ["used_over_min", "used_over_min_with"])
def test_no_usage_is_within_no_min_at_all(operation: str, used: Json) -> None:
    """A state that the peer knows and no quota has."""
    given = {"op": operation, "used": used, "min": None, "podRequest": {}}
    assert judge("elasticquota", {"name": "v", "input": given, "expected": {"over": True}}).outcome is Outcome.PASSED


def test_core_resources_that_nobody_uses_are_told() -> None:
    """Whether they are expected as zero or not at all."""
    given = {"op": "reserve_resource", "used": {"nvidia.com/gpu": "1"}, "pods": []}
    expected = {"used": {"cpu": "0", "memory": "0", "ephemeral-storage": "0", "nvidia.com/gpu": "1"}}
    assert judge("elasticquota", {"name": "v", "input": given, "expected": expected}).outcome is Outcome.PASSED


@pytest.mark.parametrize(("before", "after"), [("Unknown", "Running"), ("Failed", "Pending"), ("Running", None)])
def test_pods_are_charged_by_their_present_phase(before: str, after: str | None) -> None:
    """The peer never charges such a pod again, or never expects one without a phase; a wrong amount still fails."""
    first, old = (_pod("p", "2", 0, nodeName="n1") | {"status": {"phase": phase}} for phase in ("Running", before))
    new = old | {"status": {"phase": after} if after else {}}
    updates: list[Json] = [{"updatePod": [first, old]}, {"updatePod": [old, new]}]
    steps: list[Json] = [{"addQuota": _quota("q1", "4")}, {"addPod": first}, *updates]
    moved = [{kind: _moved(given) for kind, given in step.items()} for step in steps]
    vector = {"name": "v", "input": {"op": "events", "steps": moved}, "expected": {"ns1": {"pods": []}}}

    assert judge("elasticquota", vector).outcome is Outcome.DEVIATION
    steps_of_another = {"op": "events", "steps": moved[:2]}
    assert judge("elasticquota", {**vector, "input": steps_of_another}).outcome is Outcome.FAILED


def _moved(given: Json | list[Json]) -> Json | list[Json]:
    if isinstance(given, list):
        return [{**each, "metadata": {**each["metadata"], "namespace": "ns1"}} for each in given]
    return {**given, "metadata": {**given["metadata"], "namespace": "ns1"}}


@pytest.mark.parametrize("wrapped", [True, False])
def test_quotas_stand_alone_or_beside_what_is_used(*, wrapped: bool) -> None:
    """Vectors have either; without what is used, nothing is."""
    quota = _quota("ns1", "2")
    given = {"op": "reserve_sequence", "elasticQuotas": [{"quota": quota, "used": {}} if wrapped else quota]}
    pods = [_moved(_pod("p", "1", 0, nodeName="n1"))] * 2
    expected = {"ns1": [{"used": {"milliCPU": 1000}, "pods": ["p"]}] * 2}
    vector = {"name": "v", "input": {**given, "cachedPods": [], "pods": pods}, "expected": expected}
    assert judge("elasticquota", vector).outcome is Outcome.PASSED


def test_only_resources_keep_a_pod_from_a_node() -> None:
    """No other filter was there when the vectors were made, whatever nodes and pods say."""
    given = _preempt(_SELECTORS[0], nodeSelector={"disk": "fast"})
    given["nodes"][0]["spec"] = {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]}
    vector = {"name": "v", "input": given, "expected": _theirs(0)}
    assert judge("capacity_preemption", vector).outcome is Outcome.DEVIATION
