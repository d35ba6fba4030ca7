"""`kubectl headroom explain quota NAME`."""

import json
from typing import Any, cast

import pytest
import yaml

from headroom.kube import ApiServer
from kubectl_headroom.errors import CommandError
from kubectl_headroom.quota import account_command
from kubectl_headroom.quota.reading import Place
from tests.kubectl_headroom.quota_site import GPU, cluster, gpus, machine, quota, story
from tests.scheduler_plugins.objects import NOW, at
from tests.support.api import FakeApi

PLACE = Place(None, "headroom-system", None)


async def _explain(api: FakeApi, namespace: str, name: str, output: str = "table") -> None:
    await account_command.quota(cast("ApiServer", api), PLACE, namespace, name, output, lambda: NOW)


async def test_lender_and_its_queue(capsys: pytest.CaptureFixture[str]) -> None:
    """A quota with lent resources shows them, the amount it may still use, and its pending pods with reasons."""
    await _explain(cluster(*story()), "b", "qb")
    out = capsys.readouterr().out
    assert out.startswith("ElasticQuota b/qb: in force\n")
    assert "- nvidia.com/gpu: 3 in use of min 6, max 8: others borrow 2 of it; it may take 1 more now." in out
    assert "- 1 pod of it waits, because of quotas; the first in line: ElasticQuota b/qb: nvidia.com/gpu used by" in out
    assert "Pods it is charged for\n" in out
    assert [line.split()[0] for line in out.splitlines() if line.startswith(("b1", "b2"))] == ["b1", "b2"]


async def test_borrower(capsys: pytest.CaptureFixture[str]) -> None:
    """A quota that borrows says what its owners may have back, and that its max leaves nothing."""
    await _explain(cluster(*story()), "a", "qa")
    out = capsys.readouterr().out
    assert "it borrows 2, which its owners may have back by eviction; it may take nothing more now." in out
    assert "- No pod of it waits." in out


async def test_wide_shows_every_pod(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten pods are listed, and how many there are more; -o wide lists all."""
    pods = [gpus("a", f"p{number:02}", 1, "n1") for number in range(13)]
    api = cluster(machine("n1", 20), quota("a", {GPU: 20}), *pods)
    await _explain(api, "a", "qa")
    short = capsys.readouterr().out
    assert "Pods it is charged for (3 more with -o wide)" in short
    assert ("p09" in short, "p10" in short) == (True, False)
    await _explain(api, "a", "qa", "wide")
    wide = capsys.readouterr().out
    assert "p12" in wide
    assert "MAY STILL TAKE" in wide


async def test_waiting_for_something_else(capsys: pytest.CaptureFixture[str]) -> None:
    """Where no quota is in the way of pods that wait, the text says so."""
    api = cluster(machine("n1", 1), quota("a", {GPU: 4}), gpus("a", "p1", 1, "n1"), gpus("a", "p2", 1))
    await _explain(api, "a", "qa")
    out = capsys.readouterr().out
    assert "- 1 pod of it waits, and quotas admit them: kubectl headroom explain pod shows the reason." in out
    assert "not because of quotas" in out


async def test_quota_that_is_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    """Of two quotas in a namespace the younger says that it has no effect, and how to end that."""
    young = quota("a", {GPU: 1}, name="young", created=-10)
    await _explain(cluster(machine("n1", 4), quota("a", {GPU: 4}), young), "a", "young")
    out = capsys.readouterr().out
    assert out.startswith("ElasticQuota a/young: not in force\n")
    assert "It is not in force: a/qa is older" in out
    assert "kubectl delete eq young -n a" in out


async def test_findings_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Findings of `quota verify` about the quota or all together are shown; those about others are not."""
    other = quota("b", {GPU: 1}, {GPU: 0})
    await _explain(cluster(machine("n1", 1), quota("a", {GPU: 4}, used={GPU: "3"}), other), "a", "qa")
    out = capsys.readouterr().out
    assert "- Wrong: a/qa status.used has nvidia.com/gpu 3, but the pods of the namespace sum to 0." in out
    assert "- Wrong: all quotas of nvidia.com/gpu all min together are 5, and the nodes have 1" in out
    assert "b/qb" not in out


async def test_conditions_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """The conditions of the object are listed, with the time since when."""
    made = quota("a", {GPU: 4}, used={GPU: "0"})
    made["status"]["conditions"] = [
        {"type": "InForce", "status": "True", "reason": "Oldest", "message": "It is.", "lastTransitionTime": at(-75)}
    ]
    await _explain(cluster(machine("n1", 4), made), "a", "qa")
    assert "InForce     True     Oldest   1m15s   It is." in capsys.readouterr().out


async def test_documents(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has the amounts as quantities, the pods and the reasons; YAML the same."""
    await _explain(cluster(*story()), "b", "qb", "json")
    result: Any = json.loads(capsys.readouterr().out)
    assert (result["kind"], result["version"], result["inForce"]) == ("QuotaAccount", 1, True)
    (resource,) = result["resources"]
    assert {name: resource[name] for name in ("resource", "min", "used", "lent", "left")} == {
        "resource": GPU,
        "min": "6",
        "used": "3",
        "lent": "2",
        "left": "1",
    }
    assert [entry["pod"] for entry in result["charged"]] == ["b/b1"]
    assert result["waiting"][0]["requests"] == {GPU: "3"}
    assert result["waiting"][0]["why"].startswith("ElasticQuota b/qb")
    await _explain(cluster(*story()), "b", "qb", "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == result


@pytest.mark.parametrize(
    ("namespace", "name", "says"),
    [
        ("a", "aq", r"There is no ElasticQuota 'aq' in namespace a. Did you mean qa\?"),
        ("c", "qa", r"Namespace c has no ElasticQuota: name another with -n. Did you mean a/qa"),
    ],
)
async def test_unknown_quota(namespace: str, name: str, says: str) -> None:
    """A quota that does not exist is answered with those that do."""
    with pytest.raises(CommandError, match=says):
        await _explain(cluster(*story()), namespace, name)


async def test_not_enforced(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the profile does not list CapacityScheduling, the account says that it limits no pod."""
    head = "apiVersion: headroom.dev/v1alpha1\nkind: HeadroomSchedulerConfiguration\n"
    text = f"{head}plugins: [{{name: LoadAwareScheduling}}]\n"
    await _explain(cluster(*story(), text=text), "a", "qa")
    assert "- Nothing of it is enforced" in capsys.readouterr().out
