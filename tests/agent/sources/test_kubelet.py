"""Pods from the kubelet, over real TLS: what it lists, how it fails, and what its restart looks like."""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from agent.pods import pod_ref
from agent.settings import KubeletSettings
from agent.sources.kubelet import Address, KubeletPods, login_to
from crds.priority import PriorityBand
from headroom import kube
from tests.agent.made_cgroups import Tree
from tests.support.waiting import until
from tools.devcluster.certs import Pki

HASH = "0123456789abcdef0123456789abcdef"
QUICK = KubeletSettings(interval_seconds=0.01, longest_wait_seconds=0.01)


NOWHERE: Address = ("127.0.0.1", 1)


class Kubelet:
    """What a kubelet answers; real TLS, scripted content."""

    def __init__(self) -> None:
        self.pods: list[Any] | None = []
        self.status, self.body = 200, ""
        self.headers: dict[str, str] = {}
        self.tokens: list[str] = []
        self.address = NOWHERE

    async def answer(self, request: web.Request) -> web.Response:
        self.tokens.append(request.headers.get("Authorization", ""))
        listed: dict[str, Any] = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self.pods}
        return web.Response(text=self.body or json.dumps(listed), status=self.status, headers=self.headers)


@asynccontextmanager
async def serving(pki: Pki, names: tuple[str, ...] = ()) -> AsyncIterator[Kubelet]:
    """One on loopback, with a certificate for that address, or else for these names."""
    kubelet, app = Kubelet(), web.Application()
    pair = pki.server("kubelet", () if names else ("127.0.0.1",), names)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)
    app.router.add_get("/pods", kubelet.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    kubelet.address = ("127.0.0.1", int(runner.addresses[0][1]))
    try:
        yield kubelet
    finally:
        await runner.cleanup()


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


def kubeconfig_of(file: Path, **cluster: Any) -> str:  # noqa: ANN401
    config = {
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.96.0.1", **cluster}}],
        "users": [{"name": "u", "user": {"token": "agent-token"}}],
    }
    file.write_text(yaml.safe_dump(config))
    return str(file)


@pytest.fixture
def kubeconfig(tmp_path: Path, pki: Pki) -> str:
    """A login with a token, as of a service account."""
    return kubeconfig_of(tmp_path / "config", **{"certificate-authority": str(pki.ca)})


def uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def pod(number: int, phase: str = "Running", **spec: Any) -> dict[str, Any]:  # noqa: ANN401
    annotations = {"kubernetes.io/config.source": "api" if number else "file"}
    metadata = {"uid": uid(number) if number else HASH, "namespace": "shop", "name": f"pod-{number}"}
    return {
        "metadata": {**metadata, "annotations": annotations},
        "spec": {"containers": [], **spec},
        "status": {"phase": phase},
    }


class Setup:
    """A source of pods, a machine's cgroups, and a kubelet."""

    def __init__(self, tree: Tree, kubelet: Kubelet, session: kube.ApiServer) -> None:
        self.tree, self.kubelet, self.session = tree, kubelet, session
        self.source = KubeletPods(KubeletSettings(), lambda _: pytest.fail("no login"), lambda: NOWHERE, tree.cgroups)

    async def lists(self, *items: Any) -> tuple[list[str], str]:  # noqa: ANN401
        """The kubelet is asked and lists this: names of the pods that there are then, and the problem."""
        self.kubelet.pods = list(items)
        await self.source.poll(self.session)
        return self.names, self.source.problem

    @property
    def names(self) -> list[str]:
        return sorted(one.name for one in self.source.pods())


@asynccontextmanager
async def made(
    folder: Path, pki: Pki, kubeconfig: str, authority: Path | None = None, names: tuple[str, ...] = ()
) -> AsyncIterator[Setup]:
    async with serving(pki, names) as kubelet:
        login = login_to(kubelet.address, kubeconfig, authority)
        async with kube.ApiServer(login, user_agent="test", timeout_seconds=10) as session:
            yield Setup(Tree(folder / "cgroup"), kubelet, session)


@pytest.fixture
async def setup(tmp_path: Path, pki: Pki, kubeconfig: str) -> AsyncIterator[Setup]:
    async with made(tmp_path, pki, kubeconfig) as found:
        yield found


async def test_pods_are_as_listed_with_the_agents_token(setup: Setup) -> None:
    reported: list[tuple[str, float]] = []
    setup.source.on_request = lambda code, seconds: reported.append((code, seconds))
    assert not setup.source.synced
    await setup.lists(pod(1), pod(2, "Succeeded"), pod(0))
    assert {one.name: one.terminal for one in setup.source.pods()} == {"pod-0": False, "pod-1": False, "pod-2": True}
    wait = await setup.source.poll(setup.session)
    assert await setup.lists(pod(1)) == (["pod-1"], "")
    assert 4.5 <= wait <= 5.5
    assert setup.kubelet.tokens == ["Bearer agent-token"] * 3
    assert [code for code, seconds in reported if seconds > 0] == ["200"] * 3


async def test_static_pod_is_as_its_mirror_in_the_api(setup: Setup) -> None:
    """It has the same cgroup, workload and tier, though it has no priority number."""
    mirror = pod(0, priority=5500, priorityClassName="koord-batch", nodeName="n")
    mirror["metadata"] |= {"uid": uid(9), "ownerReferences": [{"kind": "Node", "name": "n", "controller": True}]}
    mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"] = HASH
    await setup.lists(pod(0, priorityClassName="koord-batch"))
    (own,), other = setup.source.pods(), pod_ref(mirror)
    assert (own.cgroup_uid, own.workload, own.band) == (HASH, "shop/Pod/pod-0", PriorityBand.BATCH)
    for name in ("cgroup_uid", "workload", "band", "namespace", "name", "priority_label"):
        assert getattr(own, name) == getattr(other, name)


async def test_pods_with_a_cgroup_stay_while_kubelet_starts(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    """After its start it lists nothing, then static pods, then all."""
    caplog.set_level(logging.INFO, "agent.sources.kubelet")
    kept = "as after its start; those that have a cgroup are kept"
    setup.tree.has(uid(1), HASH)
    await setup.lists(pod(1), pod(2, "Pending"), pod(0))
    for items in ([], [pod(0)]):
        names, problem = await setup.lists(*items)
        assert names == ["pod-0", "pod-1"]  # pod-2 has not begun: nothing is lost without it
        assert kept in problem
    setup.kubelet.pods = None
    await setup.source.poll(setup.session)
    assert setup.names == ["pod-0", "pod-1"]
    names, _ = await setup.lists(pod(0), pod(3))
    assert names == ["pod-0", "pod-3"]  # the API server has spoken: pod-1 was deleted meanwhile
    setup.tree.has(uid(3))
    assert await setup.lists(pod(3)) == (["pod-3"], "")
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == f"The kubelet lists no pods of its manifests and the API server, {kept}"
    assert said[1] == f"The kubelet lists no pods of the API server, {kept}"
    assert said[-1] == "the kubelet lists this node's pods again"


async def test_first_list_that_lacks_pods_with_a_cgroup_is_no_complete_one(setup: Setup) -> None:
    setup.tree.has(uid(1), HASH)
    for items in ([], [pod(0)]):
        _, problem = await setup.lists(*items)
        assert not setup.source.synced
        assert "fewer than have a cgroup, as after its start" in problem
    setup.tree.has(HASH)
    assert await setup.lists(pod(0)) == (["pod-0"], "")
    assert setup.source.synced


async def test_error_keeps_pods(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    """Errors are logged once each, and the kubelet is asked less and less often."""
    caplog.set_level(logging.INFO, "agent.sources.kubelet")
    setup.tree.has(uid(1), uid(2))
    items = (pod(1), pod(2), pod(3, "Pending"))
    await setup.lists(*items)
    setup.kubelet.status = 500
    waits = [await setup.source.poll(setup.session) for _ in range(6)]
    assert [round(wait / plain) for wait, plain in zip(waits, [5, 10, 20, 40, 60, 60], strict=True)] == [1] * 6
    assert setup.names == ["pod-1", "pod-2", "pod-3"]
    for cgroups in ((uid(1),), ()):  # pod-2 has ended; a tree that cannot be read tells nothing
        setup.tree.has(*cgroups)
        names, _ = await setup.lists(*items)
        assert names == ["pod-1", "pod-3"]
    setup.kubelet.status = 200
    assert (await setup.lists(*items))[1] == ""
    first, last = [record.getMessage() for record in caplog.records]
    assert first.endswith("the pods known so far are kept")
    assert last == "the kubelet lists this node's pods again"


async def test_kubelet_that_says_when_to_come_back_is_not_asked_before(setup: Setup) -> None:
    setup.kubelet.status, setup.kubelet.headers = 429, {"Retry-After": "100"}
    assert await setup.source.poll(setup.session) >= 90


@pytest.mark.parametrize(
    ("status", "body", "parts"),
    [
        (401, "Unauthorized", ["refuses to list its pods", "authentication.webhook.enabled"]),
        (403, "Forbidden (user=agent, verb=get)", ["user=agent", "nodes/pods", "agent.podsFrom=kubelet"]),
        (404, "404 page not found", ["/pods"]),
        (500, "boom", ["answers 500: boom"]),
        (200, "<html>", ["does not answer like a kubelet"]),
        (200, '{"kind": "Status"}', ["does not answer like a kubelet"]),
        (200, '{"kind": "PodList", "items": {}}', ["does not answer like a kubelet"]),
    ],
)
async def test_refusal_is_one_line_with_the_way_out(setup: Setup, status: int, body: str, parts: list[str]) -> None:
    setup.kubelet.status, setup.kubelet.body = status, body
    _, problem = await setup.lists()
    assert not setup.source.synced
    assert "\n" not in problem
    assert [part for part in parts if part not in problem] == []


async def test_kubelet_that_is_not_there_is_named_by_its_address(
    setup: Setup, kubeconfig: str, unused_tcp_port: int
) -> None:
    codes: list[str] = []
    setup.source.on_request = lambda code, _: codes.append(code)
    login = login_to(("127.0.0.1", unused_tcp_port), kubeconfig)
    async with kube.ApiServer(login, user_agent="test") as session:
        await setup.source.poll(session)
    assert setup.source.problem == (
        f"The kubelet at https://127.0.0.1:{unused_tcp_port} cannot be reached: Connection refused; "
        "if it listens elsewhere, --kubelet-address says where"
    )
    assert codes == ["none"]


@pytest.mark.parametrize("names", [(), ("worker-1",)], ids=["other-authority", "other-name"])
async def test_token_is_not_sent_to_a_kubelet_that_cannot_be_verified(
    pki: Pki, kubeconfig: str, tmp_path: Path, names: tuple[str, ...]
) -> None:
    authority = pki if names else Pki(tmp_path / "own")
    async with made(tmp_path, authority, kubeconfig, names=names) as setup:
        _, problem = await setup.lists()
        assert setup.kubelet.tokens == []
    assert [
        part for part in ("cannot be verified", "--kubelet-ca FILE", "serverTLSBootstrap") if part not in problem
    ] == []


async def test_authority_of_kubelets_may_be_given_and_renewed(pki: Pki, kubeconfig: str, tmp_path: Path) -> None:
    own, given = Pki(tmp_path / "own"), tmp_path / "kubelet-ca.crt"
    given.write_bytes(pki.ca.read_bytes())
    async with made(tmp_path, own, kubeconfig, given) as setup:
        assert "cannot be verified" in (await setup.lists())[1]
        given.write_bytes(own.ca.read_bytes())
        assert (await setup.lists())[1] == ""


@pytest.mark.parametrize("cluster", [{"insecure-skip-tls-verify": True}, {"server": "http://x"}])
def test_kubelet_is_never_unverified(tmp_path: Path, pki: Pki, cluster: dict[str, Any]) -> None:
    file = kubeconfig_of(tmp_path / "careless", **cluster)
    with pytest.raises(kube.LoginError, match="never contacted: give --kubelet-ca FILE"):
        login_to(NOWHERE, file)
    tls = login_to(NOWHERE, file, pki.ca).tls
    assert tls is not None
    assert (tls.verify_mode, tls.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_name_and_proxy_of_the_api_server_are_not_the_kubelets(tmp_path: Path, pki: Pki) -> None:
    cluster = {"tls-server-name": "api", "proxy-url": "http://proxy:1", "certificate-authority": str(pki.ca)}
    login = login_to(("fd00::1", 10250), kubeconfig_of(tmp_path / "proxied", **cluster))
    found = (login.server, login.server_hostname, login.proxy, login.direct)
    assert found == ("https://[fd00::1]:10250", None, None, True)


async def test_pods_that_cannot_be_read_are_named_once(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    bad = pod(1, containers=[{"resources": {"requests": {"cpu": "lots"}}}])
    odd: tuple[Any, ...] = ({"metadata": 3}, {"metadata": {"uid": "x"}, "spec": "y"}, {})
    for _ in range(3):
        names, _ = await setup.lists(bad, pod(2), None, 5, *odd)
        assert names == ["pod-2"]
    assert caplog.text.count("pod shop/pod-1: spec.containers[0].resources.requests.cpu: 'lots' is not a quantity") == 1
    assert len(caplog.records) == 6


@asynccontextmanager
async def running(
    tree: Tree, login: Callable[[Address], kube.Connection], where: list[Address | None]
) -> AsyncIterator[KubeletPods]:
    source = KubeletPods(QUICK, login, lambda: where[-1], tree.cgroups)
    task = asyncio.create_task(source.run())
    yield source
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_kubelet_is_asked_where_the_node_says_it_is(
    pki: Pki, kubeconfig: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where: list[Address | None] = [None]
    monkeypatch.setattr("agent.sources.kubelet._ADDRESS_SECONDS", 0.01)
    tree = Tree(tmp_path / "cgroup")
    async with (
        serving(pki) as first,
        serving(pki) as second,
        running(tree, lambda address: login_to(address, kubeconfig), where) as source,
    ):
        first.pods, second.pods = [pod(1)], [pod(2)]
        assert source.pods() == ()
        for kubelet, name in ((first, "pod-1"), (second, "pod-2")):
            where.append(kubelet.address)
            await until(lambda name=name: [one.name for one in source.pods()] == [name], name)  # type: ignore[misc]


async def test_login_that_has_become_unreadable_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tries = []

    def unreadable(address: Address) -> kube.Connection:
        tries.append(address)
        raise kube.LoginError("the kubeconfig cannot be read")

    async with running(Tree(tmp_path / "cgroup"), unreadable, [NOWHERE]) as source:
        await until(lambda: len(tries) >= 3, "three tries")
    assert source.problem == "the kubeconfig cannot be read"
    assert len(caplog.records) == 1
