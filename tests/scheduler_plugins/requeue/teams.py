"""Namespaces with quotas of CPU on two nodes, for the tests of requeuing."""

from typing import Any

from scheduler_plugins.plugins.capacity_scheduling import NAME, CapacityScheduling, quota_cluster
from scheduler_plugins.quota.quota import MaxMissing
from tests.scheduler_plugins.objects import Json, at, node
from tests.scheduler_plugins.requeue.site import Site, new_pod

ADMISSION = CapacityScheduling(MaxMissing.INFINITE)


def bounds(namespace: str, minimum: int, maximum: int) -> Json:
    metadata = {"namespace": namespace, "name": "q", "uid": f"quota-{namespace}", "creationTimestamp": at(0)}
    return {"metadata": metadata, "spec": {"min": {"cpu": minimum}, "max": {"cpu": maximum}}}


class Teams(Site):
    def __init__(self, plugin: object = ADMISSION, **quotas: tuple[int, int]) -> None:
        super().__init__(plugin=plugin, name=NAME)
        self.cluster = quota_cluster(self.cache.freeze(self.now))
        for name in ("n1", "n2"):
            self.cluster.put_node(node(name))
            self.cache.put_node(node(name))
        for namespace, inputs in quotas.items():
            self.cluster.put_quota(bounds(namespace, *inputs))

    def run(self, name: str, namespace: str, cpu: str = "1") -> None:
        self.cluster.put_pod(self.of(name, namespace, cpu, nodeName="n1"))

    def of(self, name: str, namespace: str, cpu: str = "1", **spec: Any) -> Json:  # noqa: ANN401 - of a PodSpec
        item = new_pod(name, cpu, **spec)
        item["metadata"]["namespace"] = namespace
        return item

    def wait(self, count: int, namespace: str, cpu: str = "1", prefix: str = "p") -> None:
        for number in range(count):
            assert not self.admits(self.of(f"{prefix}{number}", namespace, cpu))

    async def settled(self) -> None:
        for _ in range(3):
            assert await self.reconcile() == []
