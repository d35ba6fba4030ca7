"""The objects that a command line names, as kubectl writes them."""

from typing import Any, cast

import pytest

from headroom.kube import ApiServer
from kubectl_headroom import arguments
from kubectl_headroom.__main__ import main
from kubectl_headroom.errors import USAGE, CommandError
from kubectl_headroom.pod.command import pods_of
from kubectl_headroom.quota.reading import Place
from kubectl_headroom.simulate import command as simulate
from kubectl_headroom.top import command as top
from tests.kubectl_headroom import recording
from tests.kubectl_headroom.quota_site import GPU, cluster, gpus, machine, put, quota
from tests.scheduler_plugins.objects import NOW, Json
from tests.support.api import FakeApi


@pytest.mark.parametrize(
    ("line", "what", "name"),
    [
        ("explain node a", "node", "a"),
        ("explain nodes a", "node", "a"),
        ("explain no a -o json", "node", "a"),
        ("explain -o json node a", "node", "a"),
        ("explain node -o json a", "node", "a"),
        ("explain node/a", "node", "a"),
        ("explain po -n shop a", "pod", "a"),
        ("explain pod/a -n shop", "pod", "a"),
        ("explain Pods a", "pod", "a"),
        ("explain eq a", "quota", "a"),
        ("explain elasticquota.scheduling.x-k8s.io/a", "quota", "a"),
        ("explain deployment.apps/a", "deployment", "a"),
        ("explain deploy a", "deployment", "a"),
        ("explain sts/a", "statefulset", "a"),
        ("explain ds/a", "daemonset", "a"),
        ("explain jobs a", "job", "a"),
        ("explain node -f a.yaml", "node", None),
        ("explain node -f a.yaml a", "node", "a"),
        ("explain node a -f a.yaml", "node", "a"),
    ],
)
def test_explained_object(line: str, what: str, name: str | None) -> None:
    options = arguments.parser().parse_args(line.split())
    assert (options.what, options.name) == (what, name)


@pytest.mark.parametrize(
    ("line", "what", "names"),
    [
        ("top", "node", []),
        ("top -l a=b", "node", []),
        ("top no", "node", []),
        ("top nodes a b", "node", ["a", "b"]),
        ("top node -o json a", "node", ["a"]),
        ("top node/a node/b", "node", ["a", "b"]),
        ("top --node a", "node", ["a"]),
        ("top po -n shop a", "pod", ["a"]),
        ("top pods --node a", "pod", []),
    ],
)
def test_objects_of_top(line: str, what: str, names: list[str]) -> None:
    options = arguments.parser().parse_args(line.split())
    assert (options.what, options.names) == (what, names)


@pytest.mark.parametrize(
    ("line", "what", "source"),
    [
        ("simulate pod a", "pod", "a"),
        ("simulate po/a", "pod", "a"),
        ("simulate pod deploy/a.yaml", "pod", "deploy/a.yaml"),
        ("simulate pod -n shop -", "pod", "-"),
        ("simulate deploy/a", "deployment", "a"),
        ("simulate cj a", "cronjob", "a"),
    ],
)
def test_simulated_object(line: str, what: str, source: str) -> None:
    options = arguments.parser().parse_args(line.split())
    assert (options.what, options.source) == (what, source)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("explain", "the following arguments are required: TYPE"),
        ("explain svc/a", "unknown type: svc; known are node, "),
        ("explain cronjob a", "unknown type: cronjob; "),
        ("explain node", "the following arguments are required: NAME"),
        ("explain pod a b", "one name is needed, as TYPE NAME or TYPE/NAME"),
        ("explain pod pod/a", "TYPE/NAME has the type already"),
        ("explain node/", "'' is not a name that an object can have"),
        ("explain node/a/b", "'a/b' is not a name that an object can have"),
        ("top node/a pod/b", "the names are of several types"),
        ("top deploy a", "unknown type: deploy; known are node, pod"),
        ("top nodes a -l b=c", "names exclude --node and -l"),
        ("top nodes a --node b", "names exclude --node and -l"),
        ("top pods a -A", "a pod cannot be named with -A"),
        ("simulate", "the following arguments are required: TYPE"),
        ("simulate deploy", "the following arguments are required: NAME"),
        ("simulate pod a b", "one name is needed"),
    ],
)
def test_wrong_objects_point_to_help(line: str, fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    said = capsys.readouterr().err
    assert ended.value.code == USAGE
    assert said.startswith(f"kubectl headroom: {fault}")
    assert said.endswith(f". See 'kubectl headroom {line.split(maxsplit=1)[0]} --help'.\n")


def _recorded() -> ApiServer:
    api = cluster()
    recording.put_recorded(api)
    return cast("ApiServer", api)


async def test_top_of_named_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    """Named nodes alone are read and shown, each with its own pods; an absent one is an error."""
    api = _recorded()
    await top.nodes(api, ["web-2", "web-1"], "table", headers=False)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["web-1", "web-2"]
    assert not [call for call in cast("FakeApi", api).calls if call[:2] == ("LIST", "/api/v1/nodes")]
    with pytest.raises(CommandError, match="There is no node 'web'"):
        await top.nodes(api, ["web-1", "web"], "table")


async def test_top_of_named_pods(capsys: pytest.CaptureFixture[str]) -> None:
    """Named pods alone are shown; one that is absent or has no node is an error."""
    api = _recorded()
    await top.pods(api, top.Place("shop"), None, "table", names=["search", "cart"], headers=False)
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["cart", "search"]
    with pytest.raises(CommandError, match="There is no pod 'car' in namespace shop"):
        await top.pods(api, top.Place("shop"), None, "table", names=["car"])
    put(cast("FakeApi", api), gpus("shop", "waits", 1))
    with pytest.raises(
        CommandError, match="Pod shop/waits does not run on a node: kubectl headroom explain pod waits -n"
    ):
        await top.pods(api, top.Place("shop"), None, "table", names=["waits"])


@pytest.mark.parametrize("line", ["top", "quota", "shadow"])
def test_no_headers(line: str) -> None:
    assert arguments.parser().parse_args([line]).headers
    assert not arguments.parser().parse_args([line, "--no-headers"]).headers


def _with_workload(*pods: Json, **status: Any) -> FakeApi:  # noqa: ANN401 - fields of the status
    """Deployment a/web with these pods, on a cluster with one node and a quota."""
    api = cluster(machine("n1", 10), quota("a", {GPU: 4}, {GPU: 6}))
    selector = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}
    template = {"spec": gpus("a", "x", 2)["spec"]}
    spec = {"replicas": len(pods), "selector": selector, "template": template}
    web = {"metadata": {"namespace": "a", "name": "web"}, "spec": spec, "status": status}
    api.put("/apis/apps/v1/namespaces/a/deployments/web", web)
    for pod in pods:
        put(api, pod)
    return api


async def _explain(api: FakeApi, name: str = "web", output: str = "table") -> None:
    place = Place(None, "headroom-system", None)
    workload = "deployment", name
    await pods_of(cast("ApiServer", api), place, "slo-controller-config", "a", workload, output, lambda: NOW)


async def test_waiting_pods_of_a_workload_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """`explain deploy/NAME` explains the first pods that wait, and counts the others."""
    waiting = [gpus("a", f"web-{number}", 7) for number in range(4)]
    await _explain(_with_workload(*waiting, gpus("a", "web-9", 2, "n1")))
    out = capsys.readouterr().out
    assert out.startswith(
        "Deployment a/web: 4 of 5 pods wait for a node; the first 3 are explained.\n\nPod a/web-0 waits"
    )
    assert [line.split()[1] for line in out.splitlines() if line.startswith("Pod ")] == [
        "a/web-0",
        "a/web-1",
        "a/web-2",
    ]
    assert out.count("ElasticQuota a/qa: nvidia.com/gpu") >= 3


async def test_first_pod_of_a_workload_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """Where no pod waits, the first that has not ended is explained."""
    ended = gpus("a", "web-1", 2, "n1")
    ended["status"]["phase"] = "Succeeded"
    await _explain(_with_workload(ended, gpus("a", "web-2", 2, "n1")))
    out = capsys.readouterr().out
    assert out.startswith("Deployment a/web: 0 of 2 pods wait for a node.\n\nPod a/web-2 runs on node n1")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({}, ": spec.replicas is 0"),
        (
            {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota."}]},
            ": exceeded quota",
        ),
    ],
)
async def test_workload_without_pods(status: Json, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    await _explain(_with_workload(**status))
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"Deployment a/web has no pods{reason}.\n")


async def test_absent_workload_is_an_error() -> None:
    with pytest.raises(CommandError, match=r"There is no deployment 'wep' in namespace a. There are no deployments."):
        await _explain(cluster(), "wep")


async def test_template_of_a_workload_is_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    """`simulate deploy/NAME` evaluates a pod of its template."""
    api = cast("ApiServer", _with_workload())
    request = simulate.PodRequest("web", None, None, "a", "headroom-system", None, None, 10, "table", "deployment")
    await simulate.pod(api, request, lambda: NOW)
    assert capsys.readouterr().out.startswith("Deployment a/web: 1 of 1 nodes pass")
