"""Watches through what happens to a real API server: crashes, new certificates, missing rights."""

import asyncio
import logging
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from headroom import kube
from headroom.kube import ApiServer, Relisted, WatchHealth, WatchTiming, list_and_watch
from tools.devcluster import Cluster, ClusterSpec
from tools.devcluster.api import ApiError
from tools.devcluster.certs import Pki

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

QUICK = WatchTiming(first_delay_seconds=0.05, longest_delay_seconds=0.2)
MAPS = "/api/v1/namespaces/default/configmaps"
ADDRESSES = ("10.96.0.1", "127.0.0.1")


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    """A control plane of this module's own: its API server is killed and its certificates are changed."""
    with Cluster(ClusterSpec(), say=lambda _: None) as cluster:
        yield cluster


class Maps:
    """What a watch of the ConfigMaps says."""

    def __init__(self) -> None:
        self.health = WatchHealth()
        self.names: set[str] = set()
        self.lists = 0

    async def follow(self, api: ApiServer) -> None:
        """Follow for ever."""
        async for change in list_and_watch(api, MAPS, label_selector="faults", health=self.health, timing=QUICK):
            if isinstance(change, Relisted):
                self.names = {found["metadata"]["name"] for found in change.items}
                self.lists += 1
            elif change.type == "DELETED":
                self.names.discard(change.object["metadata"]["name"])
            else:
                self.names.add(change.object["metadata"]["name"])


@asynccontextmanager
async def _watching(kubeconfig: Path) -> AsyncIterator[Maps]:
    maps = Maps()
    async with ApiServer(kube.connect(str(kubeconfig)), user_agent="headroom-tests") as api:
        task = asyncio.create_task(maps.follow(api))
        try:
            yield maps
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _until(probe: Callable[[], object], what: str, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not probe():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds} s: {what}")
        await asyncio.sleep(0.02)


async def _make(server: Cluster, name: str) -> None:
    body = {"metadata": {"name": name, "labels": {"faults": ""}}}
    await asyncio.to_thread(server.api.create_all, [(MAPS, body)])


def _answers(server: Cluster) -> bool:
    try:
        server.api.get("/readyz")
    except (OSError, ApiError):
        return False
    return True


async def _remove(server: Cluster, name: str) -> None:
    await asyncio.to_thread(server.kubectl, "delete", "configmap", name)


def _kubeconfig(server: Cluster, folder: Path, token: str) -> Path:
    """A kubeconfig whose authority and token are files of their own, as of a pod."""
    (folder / "ca.crt").write_bytes(server.control_plane.pki.ca.read_bytes())
    (folder / "token").write_text(token)
    config: dict[str, Any] = {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": server.control_plane.host_url, "certificate-authority": "ca.crt"}}
        ],
        "users": [{"name": "u", "user": {"tokenFile": "token"}}],
    }
    file = folder / "config"
    file.write_text(yaml.safe_dump(config))
    return file


def _allow(server: Cluster, name: str) -> None:
    words = ("--clusterrole=view", f"--serviceaccount=default:{name}")
    server.kubectl("create", "rolebinding", name, *words)


async def test_crash_loses_nothing(server: Cluster) -> None:
    """What changed before, while and after the API server was killed is all known in the end."""
    async with _watching(server.kubeconfig) as maps:
        for name in ("crash-stays", "crash-goes"):
            await _make(server, name)
        await _until(lambda: maps.names == {"crash-stays", "crash-goes"}, "both")
        await asyncio.to_thread(server.apiserver.kill)
        await _until(lambda: maps.health.problem, "a watch that notices")
        assert "cannot be reached" in maps.health.problem
        assert maps.names == {"crash-stays", "crash-goes"}
        await asyncio.to_thread(server.apiserver.start)
        await _remove(server, "crash-goes")
        await _make(server, "crash-new")
        await _until(lambda: maps.names == {"crash-stays", "crash-new"}, "what there is after the crash")
        await _until(lambda: not maps.health.problem, "a watch that is up")


async def test_expired_version_relists(server: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real API server refuses a version that it no longer has, and everything is listed again."""
    listing = ApiServer.list
    versions: list[str] = []

    async def outdated(api: ApiServer, *arguments: Any) -> tuple[list[Any], str]:  # noqa: ANN401
        items, version = await listing(api, *arguments)
        versions.append(version)
        return items, "1" if len(versions) == 1 else version

    monkeypatch.setattr(ApiServer, "list", outdated)
    async with _watching(server.kubeconfig) as maps:
        await _until(lambda: maps.lists == 2, "a second list")
        await _make(server, "after-gone")
        await _until(lambda: "after-gone" in maps.names, "a change after it")
        assert maps.lists == 2


@contextmanager
def _shows(server: Cluster, pki: Pki) -> Iterator[None]:
    """The API server with a serving certificate of that authority, started anew; with its own again afterwards."""
    plane = server.control_plane
    ours = [plane.pki.directory / name for name in ("apiserver.crt", "apiserver.key")]
    kept = [file.read_bytes() for file in ours]
    pair = pki.server("rotated", ADDRESSES, ["localhost"])
    server.apiserver.stop()
    for file, new in zip(ours, (pair.cert, pair.key), strict=True):
        shutil.copyfile(new, file)
    try:
        server.apiserver.launch()  # nobody of ours is asked: of a new authority the others know nothing
        yield
    finally:
        server.apiserver.stop()
        for file, content in zip(ours, kept, strict=True):
            file.write_bytes(content)
        server.apiserver.start()


@pytest.mark.long
async def test_new_serving_certificate(server: Cluster) -> None:
    """An API server that comes back with a new certificate of the same authority is watched again."""
    async with _watching(server.kubeconfig) as maps:
        await _make(server, "certificate-before")
        await _until(lambda: "certificate-before" in maps.names, "a change")
        with _shows(server, server.control_plane.pki):
            lasted = maps.health.last_contact or 0.0
            await _until(lambda: (maps.health.last_contact or 0.0) > lasted and not maps.health.problem, "contact")
            # An event of before that is taken in only now is contact, too.
            await _until(lambda: _answers(server), "an answer to others")
            await _make(server, "certificate-after")
            await _until(lambda: "certificate-after" in maps.names, "a change after it")


async def test_missing_right_is_named(server: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without the right to list, the problem names user and resource, in one line; it ends when the right is given."""
    server.kubectl("create", "serviceaccount", "powerless")
    kubeconfig = _kubeconfig(server, tmp_path, server.kubectl("create", "token", "powerless").strip())
    caplog.set_level(logging.INFO, "headroom.kube.watch")
    async with _watching(kubeconfig) as maps:
        await _until(lambda: maps.health.problem, "a refusal")
        assert '"system:serviceaccount:default:powerless" cannot list resource "configmaps"' in maps.health.problem
        assert not maps.health.synced
        await asyncio.to_thread(_allow, server, "powerless")
        await _until(lambda: maps.health.synced and not maps.health.problem, "a list")
    assert caplog.text.count("cannot list resource") == 1
