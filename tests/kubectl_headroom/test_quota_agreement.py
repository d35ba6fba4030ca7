"""The numbers of a quota are the same in `quota`, `explain quota`, `explain pod` and `simulate`."""

import json
from typing import Any, cast

import pytest

from headroom.kube import ApiServer
from kubectl_headroom.quota.account_command import quota as explain_quota
from kubectl_headroom.quota.reading import Place
from kubectl_headroom.simulate import command as simulate
from scheduler_plugins.quota.hold import Hold
from tests.kubectl_headroom.quota_site import GPU, cluster, explain_pod, gpus, machine, quota, run, story
from tests.scheduler_plugins.objects import NOW, Json, at, node_metric
from tests.support.api import FakeApi

PLACE = Place(None, "headroom-system", None)


def _held() -> list[Json]:
    """The story with a pod that has a reservation, for which a pod of the other team terminates."""
    holder, victim = gpus("b", "holds", 2), gpus("a", "a4", 2, "n1")
    hold = Hold("n1", NOW + 60, ("uid-a-a4",))
    holder["metadata"]["annotations"], holder["status"]["conditions"] = hold.annotations, [hold.condition]
    victim["metadata"]["deletionTimestamp"] = at(0)
    return [*story(), holder, victim]


CLUSTERS: dict[str, list[Json]] = {
    "borrowed": story(),
    "alone": [machine("n1", 10), quota("b", {GPU: 6}), gpus("b", "b1", 5, "n1"), gpus("b", "b2", 3)],
    "max alone": [machine("n1", 10), quota("b", {}, {GPU: 4}), gpus("b", "b1", 3, "n1"), gpus("b", "b2", 3)],
    "no limit": [machine("n1", 10), quota("b", {"cpu": "1"}), gpus("b", "b2", 3)],
    "reserved": _held(),
    "over max": [machine("n1", 10), quota("b", {GPU: 6}, {GPU: 2}), gpus("b", "b1", 3, "n1"), gpus("b", "b2", 3)],
}


async def _explain_quota(api: FakeApi, output: str) -> None:
    await explain_quota(cast("ApiServer", api), PLACE, "b", "qb", output, lambda: NOW)


async def _documents(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> tuple[Any, Any, Any, Any]:
    """The documents of `quota`, `explain quota`, `explain pod` and `simulate` for b/b2 in its namespace."""
    documents = []
    request = simulate.PodRequest("b2", None, None, "b", "headroom-system", None, None, 0, "json")
    for command in (
        run(api, "-n", "b", "-o", "json"),
        _explain_quota(api, "json"),
        explain_pod(api, "b", "b2", "json"),
        simulate.pod(cast("ApiServer", api), request, lambda: NOW),
    ):
        await command
        documents.append(json.loads(capsys.readouterr().out))
    shares, account, pod, simulation = documents
    return shares, account, pod["quota"], simulation["pods"][0]["nodes"][0]["numbers"]["CapacityScheduling"]


@pytest.mark.parametrize("name", CLUSTERS)
async def test_commands_agree(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Used, max, claimed and all used amounts are the same in all four; the remaining amount admits what fits in it."""
    shares, account, explained, numbers = await _documents(cluster(*CLUSTERS[name]), capsys)
    assert account["resources"] == shares["items"][0]["resources"]
    listed = {share["resource"]: share for share in account["resources"]}
    total = {share["resource"]: share for share in shares["total"]}
    for line in explained["admission"]:
        resource = line["resource"]
        if resource not in listed:
            continue
        assert (line["used"], line["max"]) == (listed[resource]["used"], listed[resource]["max"])
        assert line["sumOfMin"] == total[resource]["min"]
        assert line["allUsed"] == total[resource]["used"]
        pairs = {"used": "used", "claimedInNamespace": "claimed", "usedByAll": "allUsed", "claimedByAll": "allClaimed"}
        for simulated, ours in pairs.items():
            assert numbers[simulated].get(resource, "0") == line[ours]
        left = listed[resource]["left"]
        if resource == GPU and left is not None and line["claimed"] == line["allClaimed"] == "0":
            assert bool(line["exceeded"]) == (int(line["requested"]) > int(left))
    assert bool(explained["refusal"]) == any(line["exceeded"] for line in explained["admission"])


@pytest.mark.parametrize("name", CLUSTERS)
async def test_tables_agree(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """MAY STILL TAKE of `quota -o wide` is that of `explain quota`, and that of its sentence."""
    api = cluster(*CLUSTERS[name])
    await run(api, "-n", "b", "-o", "wide")
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("b ")]
    await _explain_quota(api, "wide")
    out = capsys.readouterr().out
    assert rows == [line.split() for line in out.splitlines() if line.startswith("b ")]
    for row in rows:
        (sentence,) = [line for line in out.splitlines() if line.startswith(f"- {row[2]}: ")]
        ends = {"-": "it may take as much more as it likes.", "0": "it may take nothing more now."}
        assert sentence.endswith(ends.get(row[9], f"it may take {row[9]} more now."))


def _hot(*objects: Json) -> FakeApi:
    """A cluster of which node n1 has a high load."""
    api = cluster(*objects)
    api.put("/apis/slo.koordinator.sh/v1alpha1/nodemetrics/n1", node_metric("n1", "90"))
    return api


LOAD = "LoadAwareScheduling: node(s) cpu usage exceed threshold"
QUOTA = quota("b", {GPU: 6}, {GPU: 8})


@pytest.mark.parametrize(
    ("objects", "says", "silent"),
    [
        # The quota refuses it, and the load refuses the node that an eviction would make free.
        (
            story(),
            [f"The eviction alone does not place it: node n1 is also refused by {LOAD}."],
            "Filters and plugins together",
        ),
        # The load refuses the only node that it fits.
        (
            [machine("n1", 10), QUOTA, gpus("b", "b2", 3)],
            [
                "By the model of kube-scheduler's filters it fits 1 of 1 nodes: n1.",
                "No victims, by the same model: node n1 fits it without any eviction.",
                f"The scheduler's plugins let it go to 0 of 1 nodes; refused by {LOAD} (1).",
                f"Filters and plugins together let it go to none of 1 nodes: {LOAD} (1).",
            ],
            "The eviction alone",
        ),
        # One node is too small, the other has too much load.
        (
            [machine("n1", 10), machine("n2", 1), QUOTA, gpus("b", "b2", 3)],
            [
                "By the model of kube-scheduler's filters it fits 1 of 2 nodes: n1.",
                f"The scheduler's plugins let it go to 1 of 2 nodes; refused by {LOAD} (1).",
                f"Filters and plugins together let it go to none of 2 nodes: {LOAD} (1); Insufficient {GPU} (1).",
            ],
            "The eviction alone",
        ),
        # Its max is exceeded, though a node has a place.
        (
            [machine("n1", 10), machine("n2", 10), QUOTA, gpus("b", "b2", 9)],
            [f"Filters and plugins together let it go to none of 2 nodes: its quota; {LOAD} (1); its quota (1)."],
            "The eviction alone",
        ),
        # One reason each for two nodes, none for the third.
        (
            [machine("n1", 10), machine("n2", 1), machine("n3", 10), QUOTA, gpus("b", "b2", 3)],
            ["Filters and plugins together let it go to 1 of 3 nodes: n3."],
            "The eviction alone",
        ),
        # All agree that it fits nowhere.
        (
            [machine("n1", 1), QUOTA, gpus("b", "b2", 3)],
            ["it fits none of 1 nodes", "let it go to 0 of 1 nodes"],
            "Filters and plugins together",
        ),
    ],
)
async def test_two_reasons_do_not_contradict_each_other(
    objects: list[Json], says: list[str], silent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where filters, quotas and plugins each have a view, a line has the nodes that they allow together."""
    await explain_pod(_hot(*objects), "b", "b2")
    out = capsys.readouterr().out
    assert [text for text in says if text not in out] == []
    assert silent not in out


async def test_load_is_an_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    """The load in the table of nodes counts new pods at their estimate, and says so."""
    await explain_pod(_hot(*story()), "b", "b2")
    assert "LoadAwareScheduling: cpu: an estimate of 91000m of 100000m in use, new pods included" in (
        capsys.readouterr().out
    )
