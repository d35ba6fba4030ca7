"""Pods from the kubelet, over real TLS: what it lists, how it fails, and what its restart looks like."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.pods import pod_ref
from agent.settings import KubeletSettings
from agent.sources.kubelet import Address, KubeletPods, login_to
from crds.priority import PriorityBand
from headroom import kube
from tests.agent.fake_kubelet import NOWHERE, Kubelet, serving
from tests.agent.made_cgroups import Tree
from tools.devcluster.certs import Pki

HASH = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    """The cluster's authority."""
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def kubeconfig(tmp_path: Path, pki: Pki) -> str:
    """A login with a token, as of a service account."""
    return _kubeconfig(tmp_path / "config", {"server": "https://10.96.0.1", "certificate-authority": str(pki.ca)})


def _kubeconfig(file: Path, cluster: dict[str, Any]) -> str:
    config = {
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "agent-token"}}],
    }
    file.write_text(yaml.safe_dump(config))
    return str(file)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A cgroup tree without pods."""
    return Tree(tmp_path / "cgroup")


def _uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def _pod(number: int, source: str = "api", phase: str = "Running", **spec: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "metadata": {
            "uid": _uid(number),
            "namespace": "shop",
            "name": f"pod-{number}",
            "annotations": {"kubernetes.io/config.source": source},
        },
        "spec": {"containers": [], **spec},
        "status": {"phase": phase},
    }


def _static(**spec: Any) -> dict[str, Any]:  # noqa: ANN401
    pod = _pod(0, "file", **spec)
    pod["metadata"]["uid"] = HASH
    return pod


def _source(tree: Tree, kubeconfig: str, settings: KubeletSettings | None = None) -> KubeletPods:
    settings = settings or KubeletSettings()
    return KubeletPods(
        settings, lambda address: login_to(address, kubeconfig, settings.authority), _nowhere, tree.cgroups
    )


def _nowhere() -> Address | None:
    return NOWHERE


@asynccontextmanager
async def _asking(kubelet: Kubelet, kubeconfig: str, authority: Path | None = None) -> AsyncIterator[kube.ApiServer]:
    login = login_to(kubelet.address, kubeconfig, authority)
    async with kube.ApiServer(login, user_agent="test", timeout_seconds=10) as session:
        yield session


def _names(source: KubeletPods) -> list[str]:
    return sorted(pod.name for pod in source.pods())


async def test_lists_pods(pki: Pki, kubeconfig: str, tree: Tree) -> None:
    """What kubelet lists is taken over as it is, with the agent's token; ended pods are reported as ended."""
    source = _source(tree, kubeconfig)
    async with serving(pki) as kubelet, _asking(kubelet, kubeconfig) as session:
        assert not source.synced
        kubelet.pods = [_pod(1), _pod(2, phase="Succeeded"), _static()]
        wait = await source.poll(session)
        kubelet.pods = [_pod(1)]
        await source.poll(session)
    assert 4.5 <= wait <= 5.5
    assert kubelet.tokens == ["Bearer agent-token"] * 2
    assert (source.synced, source.problem, _names(source)) == (True, "", ["pod-1"])


async def test_static_pods_match_mirrors(pki: Pki, kubeconfig: str, tree: Tree) -> None:
    """A static pod has the cgroup, workload and tier of its mirror in the API, though it has no priority number."""
    mirror = _static(priority=5500, priorityClassName="koord-batch", nodeName="n")
    mirror["metadata"] |= {"uid": _uid(9), "ownerReferences": [{"kind": "Node", "name": "n", "controller": True}]}
    mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"] = HASH
    source = _source(tree, kubeconfig)
    async with serving(pki) as kubelet, _asking(kubelet, kubeconfig) as session:
        kubelet.pods = [_static(priorityClassName="koord-batch")]
        await source.poll(session)
    (pod,), other = source.pods(), pod_ref(mirror)
    assert (pod.cgroup_uid, pod.workload, pod.band) == (HASH, "shop/Pod/pod-0", PriorityBand.BATCH)
    assert (other.cgroup_uid, other.workload, other.band) == (pod.cgroup_uid, pod.workload, pod.band)
    assert (pod.namespace, pod.name, pod.priority_label) == (other.namespace, other.name, other.priority_label)


async def test_restart_keeps_running_pods(
    pki: Pki, kubeconfig: str, tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    """After its start kubelet lists nothing, then static pods, then all: what has a cgroup stays meanwhile."""
    caplog.set_level(logging.INFO, "agent.sources.kubelet")
    source = _source(tree, kubeconfig)
    tree.has(_uid(1), HASH)
    async with serving(pki) as kubelet, _asking(kubelet, kubeconfig) as session:
        kubelet.pods = [_pod(1), _pod(2, phase="Pending"), _static()]
        await source.poll(session)
        for items in (None, [], [_static()]):
            kubelet.pods = items
            await source.poll(session)
            assert _names(source) == ["pod-0", "pod-1"]  # pod-2 has not begun: nothing is lost without it
            assert "as after its start; those that have a cgroup are kept" in source.problem
        kubelet.pods = [_static(), _pod(3)]
        await source.poll(session)
        assert _names(source) == ["pod-0", "pod-3"]  # the API server has spoken: pod-1 was deleted meanwhile
        tree.has(_uid(3))
        kubelet.pods = [_pod(3)]
        await source.poll(session)
        assert _names(source) == ["pod-3"]
        assert source.problem == ""
    kept = "as after its start; those that have a cgroup are kept"
    assert [record.getMessage() for record in caplog.records] == [
        f"The kubelet lists no pods of its manifests and the API server, {kept}",
        f"The kubelet lists no pods of the API server, {kept}",
        "the kubelet lists this node's pods again",
    ]


async def test_first_list_may_be_partial(pki: Pki, kubeconfig: str, tree: Tree) -> None:
    """A first list that does not account for what runs is no complete one: no pod is taken for gone by it."""
    source = _source(tree, kubeconfig)
    tree.has(_uid(1), HASH)
    async with serving(pki) as kubelet, _asking(kubelet, kubeconfig) as session:
        for items in ([], [_static()]):
            kubelet.pods = items
            await source.poll(session)
            assert not source.synced
            assert "fewer than have a cgroup, as after its start" in source.problem
        tree.has(HASH)
        await source.poll(session)
    assert source.synced
    assert source.problem == ""


async def test_error_keeps_pods(pki: Pki, kubeconfig: str, tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
    """Errors keep what is known, are said once each, and are asked about less and less often."""
    caplog.set_level(logging.INFO, "agent.sources.kubelet")
    source = _source(tree, kubeconfig)
    tree.has(_uid(1), _uid(2))
    async with serving(pki) as kubelet, _asking(kubelet, kubeconfig) as session:
        kubelet.pods = [_pod(1), _pod(2), _pod(3, phase="Pending")]
        await source.poll(session)
        kubelet.status = 500
        waits = [await source.poll(session) for _ in range(6)]
        assert _names(source) == ["pod-1", "pod-2", "pod-3"]
        tree.has(_uid(1))  # pod-2 has ended
        await source.poll(session)
        assert _names(source) == ["pod-1", "pod-3"]
        tree.has()  # a tree that cannot be read tells nothing
        await source.poll(session)
        assert _names(source) == ["pod-1", "pod-3"]
        kubelet.status = 200
        await source.poll(session)
        assert source.problem == ""
    assert [round(wait / plain) for wait, plain in zip(waits, [5, 10, 20, 40, 60, 60], strict=True)] == [1] * 6
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert said[0].endswith("the pods known so far are kept")
    assert said[1] == "the kubelet lists this node's pods again"


async def test_busy_kubelet_is_left_alone(pki: Pki, kubeconfig: str, tree: Tree) -> None:
    """A kubelet that says when to come back is not asked before."""
    source = _source(tree, kubeconfig)
    async with serving(pki) as kubelet, _asking(kubelet, kubeconfig) as session:
        kubelet.status, kubelet.headers = 429, {"Retry-After": "100"}
        assert await source.poll(session) >= 90


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, "Unauthorized", ["refuses to list its pods", "authentication.webhook.enabled"]),
        (
            403,
            "Forbidden (user=agent, verb=get, resource=nodes)",
            ["user=agent", "nodes/pods", "agent.podsFrom=kubelet"],
        ),
        (404, "404 page not found", ["/pods"]),
        (500, "boom", ["answers 500: boom"]),
        (200, "<html>", ["does not answer like a kubelet"]),
        (200, '{"kind": "Status"}', ["does not answer like a kubelet"]),
        (200, '{"kind": "PodList", "items": {}}', ["does not answer like a kubelet"]),
    ],
)
async def test_refusals_are_explained(
    pki: Pki, kubeconfig: str, tree: Tree, status: int, body: str, words: list[str]
) -> None:
    """What kubelet refuses is one line with the server's words and the way out."""
    source = _source(tree, kubeconfig)
    async with serving(pki) as kubelet, _asking(kubelet, kubeconfig) as session:
        kubelet.status, kubelet.body = status, body
        await source.poll(session)
    assert not source.synced
    assert "\n" not in source.problem
    for word in words:
        assert word in source.problem


async def test_nobody_listens(kubeconfig: str, tree: Tree, unused_tcp_port: int) -> None:
    """A kubelet that is not there is named with its address."""
    source = _source(tree, kubeconfig)
    login = login_to(("127.0.0.1", unused_tcp_port), kubeconfig)
    async with kube.ApiServer(login, user_agent="test") as session:
        await source.poll(session)
    assert source.problem == (
        f"The kubelet at https://127.0.0.1:{unused_tcp_port} cannot be reached: Connection refused; "
        "if it listens elsewhere, --kubelet-address says where"
    )


@pytest.mark.parametrize("names", [(), ("worker-1",)], ids=["other-authority", "other-name"])
async def test_certificate_is_verified(
    pki: Pki, kubeconfig: str, tree: Tree, tmp_path: Path, names: tuple[str, ...]
) -> None:
    """A certificate of another authority, or for another address, is refused, with both ways out."""
    source = _source(tree, kubeconfig)
    authority = pki if names else Pki(tmp_path / "own")
    async with serving(authority, names) as kubelet, _asking(kubelet, kubeconfig) as session:
        await source.poll(session)
    assert kubelet.tokens == []  # the token was never sent
    for word in ("cannot be verified", "--kubelet-ca FILE", "serverTLSBootstrap"):
        assert word in source.problem


async def test_own_authority_can_be_given(pki: Pki, kubeconfig: str, tree: Tree, tmp_path: Path) -> None:
    """Kubelets with an authority of their own are verified by the file that names it; it may be renewed meanwhile."""
    own = Pki(tmp_path / "own")
    given = tmp_path / "kubelet-ca.crt"
    given.write_bytes(pki.ca.read_bytes())
    source = _source(tree, kubeconfig)
    async with serving(own) as kubelet, _asking(kubelet, kubeconfig, given) as session:
        await source.poll(session)
        assert "cannot be verified" in source.problem
        given.write_bytes(own.ca.read_bytes())
        await source.poll(session)
    assert source.problem == ""


@pytest.mark.parametrize("cluster", [{"server": "https://x", "insecure-skip-tls-verify": True}, {"server": "http://x"}])
def test_never_unverified(tmp_path: Path, pki: Pki, cluster: dict[str, Any]) -> None:
    """A login that verifies no server is not used for a kubelet unless an authority for it is given."""
    file = _kubeconfig(tmp_path / "careless", cluster)
    with pytest.raises(kube.LoginError, match="never contacted: give --kubelet-ca FILE"):
        login_to(NOWHERE, file)
    login = login_to(NOWHERE, file, pki.ca)
    assert login.tls is not None
    assert login.tls.verify_mode is ssl.CERT_REQUIRED
    assert login.tls.check_hostname


def test_login_is_for_the_node(tmp_path: Path, pki: Pki) -> None:
    """Name and proxy of the API server are not the kubelet's; an IPv6 address stands in brackets."""
    authority = {"certificate-authority": str(pki.ca)}
    server = {"server": "https://x", "tls-server-name": "api", "proxy-url": "http://proxy:1", **authority}
    login = login_to(("fd00::1", 10250), _kubeconfig(tmp_path / "proxied", server))
    assert (login.server, login.server_hostname, login.proxy, login.direct) == (
        "https://[fd00::1]:10250",
        None,
        None,
        True,
    )


async def test_unreadable_pods_are_named(
    pki: Pki, kubeconfig: str, tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    """A pod that cannot be read is named once, not once per list, and the others are kept."""
    source = _source(tree, kubeconfig)
    bad = _pod(1, containers=[{"resources": {"requests": {"cpu": "lots"}}}])
    async with serving(pki) as kubelet, _asking(kubelet, kubeconfig) as session:
        kubelet.pods = [bad, _pod(2), None, 5, {"metadata": 3}, {"metadata": {"uid": "x"}, "spec": "y"}, {}]
        for _ in range(3):
            await source.poll(session)
    assert _names(source) == ["pod-2"]
    assert caplog.text.count("pod shop/pod-1: spec.containers[0].resources.requests.cpu: 'lots' is not a quantity") == 1
    assert len(caplog.records) == 6


async def test_follows_the_node(pki: Pki, kubeconfig: str, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet is asked where the Node says it is, also when that changes; before that nothing is asked."""
    seen: list[Address | None] = [None]
    quick = KubeletSettings(interval_seconds=0.01, longest_wait_seconds=0.01)
    source = KubeletPods(quick, lambda address: login_to(address, kubeconfig), lambda: seen[-1], tree.cgroups)
    monkeypatch.setattr("agent.sources.kubelet._ADDRESS_SECONDS", 0.01)
    async with serving(pki) as first, serving(pki) as second:
        first.pods, second.pods = [_pod(1)], [_pod(2)]
        async with _running(source):
            assert source.pods() == ()
            for kubelet, name in ((first, "pod-1"), (second, "pod-2")):
                seen.append(kubelet.address)
                async with asyncio.timeout(20):
                    while _names(source) != [name]:  # noqa: ASYNC110 - it is no event
                        await asyncio.sleep(0.005)


async def test_login_may_fail_later(kubeconfig: str, tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
    """A login that has become unreadable is said, and tried again."""
    quick = KubeletSettings(interval_seconds=0.01, longest_wait_seconds=0.01)
    tries = 0

    def unreadable(_address: Address) -> kube.Connection:
        nonlocal tries
        tries += 1
        raise kube.LoginError(f"{kubeconfig} cannot be read")

    source = KubeletPods(quick, unreadable, _nowhere, tree.cgroups)
    async with _running(source), asyncio.timeout(20):
        while tries < 3:  # noqa: ASYNC110 - it is no event
            await asyncio.sleep(0.005)
    assert source.problem == f"{kubeconfig} cannot be read"
    assert len(caplog.records) == 1


@asynccontextmanager
async def _running(source: KubeletPods) -> AsyncIterator[None]:
    task = asyncio.create_task(source.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
