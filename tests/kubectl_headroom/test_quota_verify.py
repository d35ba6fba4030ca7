"""`kubectl headroom quota verify`: consistency of the status, and of the guarantees."""

import json
from typing import Any

import pytest

from kubectl_headroom.errors import FAILED
from scheduler_plugins.quota.devices import TEMPLATES
from tests.kubectl_headroom.quota_site import GPU, cluster, gpus, machine, put, quota, run, story
from tests.scheduler_plugins.objects import Json
from tests.support.api import FakeApi

MAPPED = """
apiVersion: headroom.dev/v1alpha1
kind: HeadroomSchedulerConfiguration
plugins: [{name: CapacityScheduling, args: {deviceClasses: {gpu.nvidia.com: nvidia.com/gpu}}}]
"""


async def _no_pause(_seconds: float) -> None:
    pass


async def _verified(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, str]]:
    """The exit code, and what each check says of what."""
    code = await run(api, "verify", "-o", "json", pause=_no_pause)
    findings = json.loads(capsys.readouterr().out)["findings"]
    return code, {f"{finding['level']} {finding['check']} {finding['quota']}": finding["text"] for finding in findings}


async def test_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the status equals the pods' sum, and min fits the nodes, it ends with 0."""
    assert await run(cluster(*story()), "verify", pause=_no_pause) == 0
    assert capsys.readouterr().out == "2 quotas: no errors.\n"


async def test_wrong_status(capsys: pytest.CaptureFixture[str]) -> None:
    """A status that differs from the pod list is wrong: more, less, of what no pod uses, or not there at all."""
    there = [
        machine("n1", 10),
        quota("a", {GPU: 4, "cpu": 3}, used={GPU: "1", "cpu": "2"}),
        quota("b", {GPU: 1}),
        gpus("a", "a1", 2, "n1"),
    ]
    code, result = await _verified(cluster(*there), capsys)
    assert code == FAILED
    assert result["wrong status a/qa"] == "status.used has nvidia.com/gpu 1, but the pods of the namespace sum to 2"
    assert result["wrong status b/qb"].startswith("has no status.used: the extender that leads writes it")
    assert await run(cluster(*there), "verify", pause=_no_pause) == FAILED
    out = capsys.readouterr().out
    assert "status.used has cpu 2, but the pods of the namespace sum to 0" in out
    assert out.endswith("2 quotas: 3 errors.\n")


async def test_status_may_lag(capsys: pytest.CaptureFixture[str]) -> None:
    """A status that is written a moment later is no finding."""
    api = cluster(machine("n1", 10), quota("a", {GPU: 4}, used={GPU: "0"}), gpus("a", "a1", 2, "n1"))
    waited: list[float] = []

    async def written(seconds: float) -> None:
        waited.append(seconds)
        put(api, quota("a", {GPU: 4}, used={GPU: "2"}))

    assert await run(api, "verify", pause=written) == 0
    assert len(waited) == 1

    async def moved_on(_seconds: float) -> None:
        put(api, quota("a", {GPU: 4}, used={GPU: "4"}))
        put(api, gpus("a", "a2", 2, "n1"))
        put(api, gpus("a", "a3", 1, "n1"))

    put(api, quota("a", {GPU: 4}, used={GPU: "0"}))
    capsys.readouterr()
    assert await run(api, "verify", pause=moved_on) == 0, "it wrote meanwhile, and lags behind the next change"


@pytest.mark.parametrize(
    ("objects", "finding", "text"),
    [
        (
            [quota("a", {GPU: 7}, used={GPU: "0"}), quota("b", {GPU: 4}, used={GPU: "0"})],
            "wrong capacity all quotas",
            "of nvidia.com/gpu all min together are 11, and the nodes have 10: the sum of min exceeds",
        ),
        (
            [quota("a", {GPU: 3}, {GPU: 2}, used={GPU: "0"})],
            "wrong bounds a/qa",
            "min of nvidia.com/gpu, 3, is more than max, 2",
        ),
        (
            [quota("a", {GPU: 1}, name="old", created=-200, used={GPU: "0"}), quota("a", {GPU: 2}, name="new")],
            "wrong several a/new",
            "is not in force, because a/old is older and a namespace has one quota",
        ),
        (
            [quota("a", {GPU: 4}, {GPU: 4}, used={GPU: "5"}), gpus("a", "a1", 5, "n1")],
            "note over-max a/qa",
            "uses 5 of nvidia.com/gpu, and max is 4: no pod is evicted for that, new pods wait",
        ),
        (
            [quota("a", {"pods": 2}, used={"pods": "0"}), gpus("a", "a1", 0, "n1")],
            "wrong status a/qa",
            "status.used has pods 0, but the pods of the namespace sum to 1",
        ),
        (
            [quota("a", {"requests.cpu": 1}, used={"requests.cpu": "0"})],
            "note unbounded a/qa",
            "names requests.cpu, which pods do not request",
        ),
    ],
)
async def test_each_check(objects: list[Json], finding: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each check has its finding and no other; a note alone does not fail."""
    code, result = await _verified(cluster(machine("n1", 10), *objects), capsys)
    assert list(result) == [finding]
    assert result[finding].startswith(text)
    assert code == (FAILED if finding.startswith("wrong") else 0)


async def test_odd_status_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """A status that is no amount is wrong, not a crash."""
    _, result = await _verified(cluster(machine("n1", 10), quota("a", {GPU: 1}, used={GPU: "lots"})), capsys)
    assert result["wrong status a/qa"].startswith("status.used cannot be read: ")


CLAIMED: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
TEMPLATE = {
    "metadata": {"namespace": "a", "name": "t"},
    "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}},
}


async def test_claimed_devices(capsys: pytest.CaptureFixture[str]) -> None:
    """Devices that are not charged are named; with a mapping they are in the sum of the pods."""
    there = [machine("n1", 10), quota("a", {GPU: 4}, used={GPU: "0"}), gpus("a", "a1", 0, "n1", **CLAIMED)]
    code, result = await _verified(cluster(*there), capsys)
    assert (code, list(result)) == (0, ["note devices a/qa"])
    assert result["note devices a/qa"].startswith("devices that 1 of its pods get by ResourceClaims are not counted")
    api = cluster(*there, text=MAPPED)
    _, result = await _verified(api, capsys)
    assert list(result) == ["note devices a/qa"], "the cluster has no claims"
    api.put(f"{TEMPLATES}/a-t", TEMPLATE)
    code, result = await _verified(api, capsys)
    assert code == FAILED
    assert result == {"wrong status a/qa": "status.used has nvidia.com/gpu 0, but the pods of the namespace sum to 1"}
