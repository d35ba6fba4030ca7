"""A cluster of quotas, with an API server that stores ElasticQuotas, for the tests of their status."""

import asyncio
import copy
from dataclasses import dataclass, field
from typing import Any, cast

from prometheus_client import CollectorRegistry

from headroom.kube import ApiError, ApiServer
from headroom.kube.events import EventRecorder
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.quota import MaxMissing
from scheduler_plugins.quota.status.metrics import QuotaMetrics
from scheduler_plugins.quota.status.writer import Writer
from tests.scheduler_plugins.objects import NOW, Json, at, node, pod
from tests.support.api import merge

Bounds = dict[str, Any]


def quota(
    name: str = "q", namespace: str = "a", minimum: Bounds | None = None, maximum: Bounds | None = None, age: float = 0
) -> Json:
    metadata = {"namespace": namespace, "name": name, "uid": f"uid-{namespace}-{name}", "generation": 1}
    bounds = {"min": minimum, "max": maximum}
    return {
        "metadata": {**metadata, "resourceVersion": "1", "creationTimestamp": at(-age)},
        "spec": {each: amounts for each, amounts in bounds.items() if amounts is not None},
    }


def bound(name: str, namespace: str = "a", cpu: str = "1", where: str = "n") -> Json:
    item = pod(name, {"cpu": cpu}, node=where)
    item["metadata"]["namespace"] = namespace
    return item


@dataclass
class FakeApi:
    """Stores ElasticQuotas as the API server does; the test delivers changes to the watch."""

    quotas: dict[str, Json] = field(default_factory=dict)
    """Objects by `namespace/name`."""
    patches: list[tuple[str, Json]] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    """Errors of the next requests."""
    prunes: bool = False
    """True if the CRD has no conditions."""

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    async def patch(self, path: str, body: dict[str, Any], content_type: str = "") -> Any:  # noqa: ANN401 - JSON
        """Merge a status into an ElasticQuota of the same uid and version."""
        await asyncio.sleep(0)
        self._fail()
        assert content_type == "application/merge-patch+json"
        *_, namespace, plural, name, status = path.split("/")
        assert (plural, status) == ("elasticquotas", "status")
        stored = self.quotas.get(f"{namespace}/{name}")
        if stored is None:
            raise ApiError(404, "NotFound", "no such quota")
        if body["metadata"] != {part: stored["metadata"][part] for part in ("uid", "resourceVersion")}:
            raise ApiError(409, "Conflict", "the object has been modified")
        self.patches.append((f"{namespace}/{name}", body["status"]))
        new = copy.deepcopy(merge(stored, {"status": body["status"]}))
        if self.prunes:
            new["status"].pop("conditions", None)
        new["metadata"]["resourceVersion"] = str(int(stored["metadata"]["resourceVersion"]) + 1)
        self.quotas[f"{namespace}/{name}"] = new
        return copy.deepcopy(new)


@dataclass
class FakeRecorder:
    events: list[tuple[str, str, str]] = field(default_factory=list)

    async def record(self, regarding: dict[str, Any], type_: str, reason: str, action: str, note: str) -> None:
        assert (type_, action, regarding["kind"]) == ("Warning", "Accounting", "ElasticQuota")
        self.events.append((regarding["name"], reason, note))

    async def flush(self) -> None:
        """Do nothing."""


class Site:
    def __init__(self, *quotas: Json) -> None:
        self.now = NOW
        self.leads = True
        self.cluster = QuotaCluster("CapacityScheduling", MaxMissing.ZERO)
        self.cluster.put_node(node(cpu="10"))
        self.api, self.recorder = FakeApi(), FakeRecorder()
        self.metrics = QuotaMetrics(CollectorRegistry())
        self.writer = Writer(
            self.cluster,
            cast("ApiServer", self.api),
            cast("EventRecorder", self.recorder),
            lambda: self.leads,
            self.metrics,
            lambda: self.now,
            lambda: self.now,
        )
        for quota in quotas:
            self.create(quota)

    def create(self, item: Json) -> None:
        key = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        self.api.quotas[key] = item
        self.watch()

    def watch(self) -> None:
        for item in self.api.quotas.values():
            self.cluster.put_quota(copy.deepcopy(item))

    async def reconcile(self, after: float = 1.0) -> list[str]:
        """Let time pass and the writer run; return the written quotas."""
        self.now += after
        before = len(self.api.patches)
        await self.writer.reconcile()
        return [key for key, _ in self.api.patches[before:]]

    def status(self, key: str = "a/q") -> Json:
        result: Json = self.api.quotas[key].get("status", {})
        return result

    def conditions(self, key: str = "a/q") -> dict[str, str]:
        """Return the reasons of the conditions, by type; those with status False have a minus."""
        result = self.status(key).get("conditions", ())
        return {entry["type"]: ("" if entry["status"] == "True" else "-") + entry["reason"] for entry in result}
