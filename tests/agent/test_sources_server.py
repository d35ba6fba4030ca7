"""The watch of this node's pods and of its Node, against a real API server."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from agent.sources.node import ApiNode
from agent.sources.pod import ApiPods
from headroom import kube
from tools.devcluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

NAMESPACE = "agent-sources"


@pytest.fixture
def pods(cluster: Cluster) -> Iterator[Callable[[str, str], None]]:
    """Makes a pod on a kwok node; all are removed after the test."""
    cluster.create_namespace(NAMESPACE)

    def make(name: str, node: str) -> None:
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}
        spec = {"nodeName": node, "containers": [container], "tolerations": [{"operator": "Exists"}]}
        pod = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
        cluster.api.create_all([(f"/api/v1/namespaces/{NAMESPACE}/pods", pod)])

    yield make
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@asynccontextmanager
async def _following(cluster: Cluster, node: str) -> AsyncIterator[tuple[ApiPods, ApiNode]]:
    async with kube.ApiServer(kube.connect(str(cluster.kubeconfig)), user_agent="headroom-tests") as api:
        sources = ApiPods(api, node), ApiNode(api, node)
        tasks = [asyncio.create_task(source.run()) for source in sources]
        try:
            yield sources
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _until(probe: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 120
    while not probe():
        if time.monotonic() > deadline:
            pytest.fail(f"not within 120 s: {what}")
        await asyncio.sleep(0.02)


async def test_only_own_pods(cluster: Cluster, pods: Callable[[str, str], None]) -> None:
    """A node's agent receives that node's pods alone, of each change, and of what the Node has."""
    ours, others = cluster.kwok.names[:2]
    await asyncio.to_thread(pods, "before", ours)
    await asyncio.to_thread(pods, "elsewhere", others)
    async with _following(cluster, ours) as (source, node):

        def names() -> set[str]:
            return {pod.name for pod in source.pods() if pod.namespace == NAMESPACE}

        await _until(lambda: names() == {"before"}, "what was there before")
        assert source.synced
        await asyncio.to_thread(pods, "after", ours)
        await _until(lambda: names() == {"before", "after"}, "a new pod")
        await _until(lambda: all(pod.running for pod in source.pods() if pod.name == "after"), "its start")
        pod = next(pod for pod in source.pods() if pod.name == "after")
        assert pod.requests == {"cpu": 250, "memory": 1 << 30}
        await asyncio.to_thread(cluster.kubectl, "-n", NAMESPACE, "delete", "pod", "before", "--wait=false")
        await _until(lambda: names() == {"after"}, "a pod that has gone")
        await _until(lambda: node.resources.capacity, "the Node")
        assert source.problem == ""
