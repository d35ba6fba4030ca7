from datetime import UTC, datetime

import pytest

from crds import names
from manager.inputs import Resource
from manager.mid.explanation.explanation import Explanation
from manager.mid.explanation.findings import findings
from manager.mid.explanation.lease import Lease
from manager.mid.explanation.next_action import Action, desired
from tests.kubectl_headroom.recording import NOW, Json, explained, named

ENABLED = '{"enable": true, "midUnallocatedPercent": 50}'


def publishing(cpu: str | None, memory: str | None = "23Gi", *, capacity: str | None = "same") -> Json:
    """Node web-1, with these Mid resources; calculated are 7000m and 23 Gi."""
    node = named("nodes", "web-1")
    for part, amount in (("allocatable", cpu), ("capacity", cpu if capacity == "same" else capacity)):
        for name, number in ((names.MID_CPU, amount), (names.MID_MEMORY, memory)):
            node["status"][part].pop(name, None)
            if number is not None:
                node["status"][part][name] = number
    return node


def written(node: Json, seconds_ago: float) -> Json:
    """The same node, to which the manager wrote some time ago."""
    moment = datetime.fromtimestamp(NOW - seconds_ago, UTC).isoformat()
    entry = {"manager": "headroom-manager", "subresource": "status", "time": moment, "operation": "Update"}
    node["metadata"]["managedFields"] = [entry, {"manager": "kubelet", "subresource": "status", "time": "not a time"}]
    return node


def cpu(explanation: Explanation) -> tuple[Action, float | None]:
    """The next change of CPU, and its latest time."""
    step = explanation.steps[0]
    assert step.resource is Resource.CPU
    return step.action, step.within_seconds


@pytest.mark.parametrize(
    ("node", "expected", "says"),
    [
        (publishing("7000"), (Action.NOTHING, None), ""),
        (
            publishing(None),
            (Action.WRITE, 0.0),
            "the Node has nothing and should have 7000m: it appears within seconds",
        ),
        (publishing("8000"), (Action.WRITE, 0.0), "a decrease is written at once"),
        (publishing("7000", capacity="6000"), (Action.WRITE, 0.0), "capacity and allocatable disagree"),
        (publishing("1000"), (Action.HOLD, 120.0), "; up to 3000m at once, since running Mid pods requested it"),
        (publishing("3000"), (Action.HOLD, 120.0), "is written when it has held 120s (midIncreaseHoldSeconds)"),
        # 7050 -> 7000 is less than 1 %, and the last write was a minute ago
        (
            written(publishing("7050"), 40),
            (Action.WAIT, 260.0),
            "so small a decrease is written when nothing was written",
        ),
        (written(publishing("7050"), 60), (Action.WAIT, 240.0), "for 300s (updateTimeThresholdSeconds)"),
        (publishing("7050"), (Action.WRITE, 0.0), "written now, since nothing was written for 300s"),
        # 6800 -> 7000 is less than resourceDiffThreshold: it waits for both
        (
            written(publishing("6800"), 40),
            (Action.WAIT, 260.0),
            "so small an increase is written when it has held 120s",
        ),
        (publishing("6800"), (Action.HOLD, 120.0), "so small an increase is written when it has held 120s"),
    ],
)
def test_next_step(node: Json, expected: tuple[Action, float | None], says: str) -> None:
    """The manager's next action about a difference, its latest time, and the setting behind it."""
    result = explained("web-1", node=node)
    assert cpu(result) == expected
    assert says in result.steps[0].reason
    assert result.steps[1].action is Action.NOTHING


def test_resources_go_when_disabled() -> None:
    """Where nothing may be published, the resources are taken away."""
    result = explained("web-3", node={**publishing("7000"), "metadata": {"name": "web-3"}})
    assert cpu(result) == (Action.WRITE, 0.0)
    assert result.steps[0].desired is None
    assert any("it is taken away within seconds" in note for note in findings(result))


def test_desired_covers_running_pods() -> None:
    """The desired amount is at least the requests of running Mid pods, even with colocation disabled."""
    result = explained("web-1", config='{"enable": false}')
    assert desired(result.result, result.facts.strategy) == {Resource.CPU: 3000, Resource.MEMORY: 4 * 2**30}


def test_shadow_takes_resources_away() -> None:
    """In shadow mode nothing new is published: running pods keep their amounts, and the numbers are calculated."""
    result = explained("web-1", "mode=shadow")
    assert result.result.calculated.cpu == 7000
    assert result.desired[Resource.CPU] == 3000
    assert any("mode is shadow" in note for note in findings(result))


def test_excluded_node_is_left_alone() -> None:
    """A node that opts out publishes nothing, and that is the first line."""
    result = explained("web-1", exclude_nodes="pool=web")
    assert findings(result)[0].startswith("this node's labels match --exclude-nodes 'pool=web'")
    assert result.excluded
    assert result.result.calculated.cpu == 0
    assert not explained("web-1").excluded


def test_no_manager_is_reported() -> None:
    """Without a holder of the Lease no change reaches the Node, and that is the first line."""
    late, free = Lease("m-1", 95.0, 15.0), Lease("", 3.0, 1.0)
    assert "no manager writes now (its Lease was renewed 1m35s ago)" in findings(explained("web-1", lease=late))[0]
    assert "no manager writes now (its Lease has no holder)" in findings(explained("web-1", lease=free))[0]
    assert not any("no manager" in note for note in findings(explained("web-1", lease=Lease("m-1", 2.0, 15.0))))


def test_other_model_is_reported() -> None:
    """An agent that predicts with another model than the strategy states is reported."""
    config = '{"enable": true, "nodePredictPolicy": {"model": "sum-max"}}'
    assert any(
        "predicts with coincidence, the strategy states sum-max" in finding
        for finding in findings(explained("web-1", config=config))
    )


def test_future_report_has_the_servers_age() -> None:
    """A report from an agent whose clock is ahead has the age of the API server's time."""
    metric = named("nodeMetrics", "web-1")
    metric["status"]["updateTime"] = "2026-11-21T13:00:00Z"
    fields: Json = {"f:status": {"f:updateTime": {}, "f:prediction": {"f:time": {}}}}
    metric["metadata"]["managedFields"] = [
        {"manager": "agent", "subresource": "status", "time": "2026-11-21T12:00:30Z", "fieldsV1": fields},
        {"manager": "other", "time": "2026-11-21T12:00:59Z", "fieldsV1": fields},
    ]
    result = explained("web-1", node_metric=metric, now=NOW)
    assert result.facts.report_age == 30.0
    assert result.facts.prediction_age == 30.0
