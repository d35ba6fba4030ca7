"""`kubectl headroom explain pod` in a namespace with a quota: why it waits, and which pods would be evicted for it."""

import json

import pytest

from scheduler_plugins.quota.hold import Hold
from tests.kubectl_headroom.quota_site import GPU, cluster, explain_pod, gpus, machine, quota, story
from tests.scheduler_plugins.objects import NOW, Json


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


async def test_borrower_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The story's pod is refused by the sum of min, and the borrower's least important pod would go for it."""
    await explain_pod(cluster(*story()), "b", "b2")
    lines = _lines(capsys)
    text = "\n".join(lines)
    assert "it fits none of 1 nodes: 1 Insufficient nvidia.com/gpu." in text
    assert (
        "The rules would have 1 pod evicted for it to go to node n1: quota a/qa uses 6 of min 4 (nvidia.com/gpu)"
        in text
    )
    assert "But nobody is evicted now" not in text
    assert "nvidia.com/gpu 3 3 0 8 9 0 10 sum of min" in lines
    assert "a/a3 0 n1 nvidia.com/gpu 2 2024-12-31T23:59:30Z" in lines


async def test_explanation_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has the arithmetic, the nodes, and the victims."""
    await explain_pod(cluster(*story()), "b", "b2", "json")
    data = json.loads(capsys.readouterr().out)["quota"]
    assert (data["kind"], data["version"], data["quota"]) == ("QuotaExplanation", 1, "b/qb")
    assert data["pod"] == {"namespace": "b", "name": "b2", "priority": 0, "node": None}
    assert "b/qb" in data["refusal"]
    (line,) = data["admission"]
    assert line == {
        "resource": GPU,
        "requested": "3",
        "used": "3",
        "claimed": "0",
        "max": "8",
        "allUsed": "9",
        "allClaimed": "0",
        "sumOfMin": "10",
        "exceeded": "sum of min",
    }
    assert data["nodes"]["misfits"] == {"n1": "Insufficient nvidia.com/gpu"}
    victim = {"pod": "a/a3", "uid": "uid-a-a3", "priority": 0, "node": "n1", "charged": {GPU: "2"}}
    assert data["eviction"]["victims"] == [victim]
    assert data["eviction"]["obstacles"] == []


async def test_beyond_max(capsys: pytest.CaptureFixture[str]) -> None:
    """A pod that would exceed its own max is rejected for that, without victims in other teams."""
    await explain_pod(cluster(*story(), gpus("a", "a4", 1)), "a", "a4", "json")
    data = json.loads(capsys.readouterr().out)["quota"]
    assert data["admission"][0]["exceeded"] == "max"
    assert "a/qa" in data["refusal"]
    assert "reason" in data["eviction"]


async def test_refusal_is_the_extenders(capsys: pytest.CaptureFixture[str]) -> None:
    """The refusal is, word for word, the reason with which `simulate` shows the extender refusing every node."""
    from tests.kubectl_headroom.test_simulate import _run as simulate  # noqa: PLC0415 - the other command's tests

    api = cluster(*story())
    await explain_pod(api, "b", "b2", "json")
    refusal = json.loads(capsys.readouterr().out)["quota"]["refusal"]
    await simulate(api, "b2", "-n", "b", "-o", "json")
    (node,) = json.loads(capsys.readouterr().out)["pods"][0]["nodes"]
    assert (node["refusals"][0]["plugin"], node["refusals"][0]["reason"]) == ("CapacityScheduling", refusal)


async def test_pod_fits_without_eviction(capsys: pytest.CaptureFixture[str]) -> None:
    """A pod that quotas admit and that fits needs no victim."""
    await explain_pod(cluster(*story(), machine("n2", 4), quota("c", {GPU: 4})), "b", "b2")
    text = "\n".join(_lines(capsys))
    assert "The max of its quota and the sum of all min admit it." in text
    assert "it fits 1 of 2 nodes: n2." in text
    assert "No victims, by the same model: node n2 fits it" in text


async def test_bound_pod_of_borrower(capsys: pytest.CaptureFixture[str]) -> None:
    """A bound pod shows its charge, and whether others may reclaim it."""
    await explain_pod(cluster(*story()), "a", "a1")
    text = "\n".join(_lines(capsys))
    assert "Its quota is charged nvidia.com/gpu 2 for it." in text
    assert "6 of min 4 (nvidia.com/gpu): it may be evicted" in text
    await explain_pod(cluster(*story()), "b", "b1", "json")
    data = json.loads(capsys.readouterr().out)["quota"]
    assert (data["overMin"], data["nodes"], data["eviction"]) == (False, None, None)
    await explain_pod(cluster(*story()), "b", "b1")
    assert "no other namespace can preempt it" in capsys.readouterr().out


def _waiting(**changes: object) -> Json:
    made = gpus("b", "b2", 3)
    for part, value in changes.items():
        made[part] = {**made[part], **value} if isinstance(value, dict) else value
    return made


@pytest.mark.parametrize(
    ("pod", "says"),
    [
        (_waiting(spec={"schedulerName": "default-scheduler"}), "the pod has scheduler default-scheduler"),
        (_waiting(spec={"schedulingGates": [{"name": "x"}]}), "scheduling gates hold the pod back"),
        (_waiting(status={"conditions": []}), "kube-scheduler has not yet marked"),
        (
            _waiting(
                metadata={"namespace": "b", "name": "b2", "uid": "u", "deletionTimestamp": "2025-01-01T00:00:00Z"}
            ),
            "the pod is being deleted",
        ),
    ],
)
async def test_obstacles_are_reported(pod: Json, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the rules would evict but the extender will not, it says why."""
    await explain_pod(cluster(*story()[:-1], pod), "b", "b2")
    (line,) = [line for line in _lines(capsys) if line.startswith("- But no pod is evicted now: ")]
    assert says in line


async def test_settings_are_obstacles(capsys: pytest.CaptureFixture[str]) -> None:
    """A profile without evictions, or without quotas, is reported as well."""
    head = "apiVersion: headroom.dev/v1alpha1\nkind: HeadroomSchedulerConfiguration\n"
    profile = "{name: CapacityScheduling, args: {reclaim: {enabled: false, dryRun: true, schedulerNames: [other]}}}"
    await explain_pod(cluster(*story(), text=f"{head}plugins: [{profile}]\n"), "b", "b2")
    text = capsys.readouterr().out
    for part in ("reclaim.enabled is false", "reclaim.dryRun is true", "reclaiming is for pods of other"):
        assert part in text
    await explain_pod(cluster(*story(), text=f"{head}plugins: [{{name: MidResources}}]\n"), "b", "b2")
    assert "the scheduler's profile does not list CapacityScheduling" in capsys.readouterr().out


async def test_claims_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Pods with reservations or nominations are listed with their claims."""
    holder, nominated = gpus("b", "holds", 1), gpus("b", "named", 1)
    hold = Hold("n1", NOW + 60, ("uid-a-a3",))
    holder["metadata"]["annotations"], holder["status"]["conditions"] = hold.annotations, [hold.condition]
    nominated["status"]["nominatedNodeName"] = "n1"
    await explain_pod(cluster(*story(), holder, nominated), "b", "b2")
    lines = _lines(capsys)
    assert "b/holds 0 n1 nvidia.com/gpu 1 2025-01-01T00:01:00Z" in lines
    assert "b/named 0 n1 nvidia.com/gpu 1 -" in lines
    assert any(line.startswith("nvidia.com/gpu 3 3 2 8 9 0 10") for line in lines)
