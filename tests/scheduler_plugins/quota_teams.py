"""Namespaces with GPU quotas on a stage, and a watch that counts their GPUs independently of the extender."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from tests.scheduler_plugins.extenders import Json, until
from tests.scheduler_plugins.stage import Stage
from tools.devcluster.api import ApiError

GPU: Final = "nvidia.com/gpu"
QUOTAS: Final = "/apis/scheduling.x-k8s.io/v1alpha1"
CAPACITY_SCHEDULING: Final[Json] = {"name": "CapacityScheduling", "args": {"maxMissing": "infinite"}}
"""The plugin in a profile."""
_ENDED: Final = ("Succeeded", "Failed")


def requested(pod: Mapping[str, Any]) -> int:
    return sum(int(container["resources"].get("requests", {}).get(GPU, 0)) for container in pod["spec"]["containers"])


@dataclass(frozen=True)
class Team:
    stage: Stage
    name: str  # of the namespace and of its quota

    @classmethod
    def make(cls, stage: Stage, name: str, least: int, most: int) -> "Team":
        """Create the namespace and its quota, in GPUs, and wait until every extender has them."""
        stage.cluster.create_namespace(name)
        team = cls(stage, name)
        quota = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": {"name": name}}
        # All other requests of its pods are guaranteed.
        spec = {"min": {"cpu": "1000", "memory": "4000Gi", GPU: f"{least}"}, "max": {GPU: f"{most}"}}
        stage.cluster.api.create_all([(f"{QUOTAS}/namespaces/{name}/elasticquotas", {**quota, "spec": spec})])
        team.known(least, most)
        return team

    def known(self, least: int | None, most: int | None) -> None:
        """Wait until every running extender uses this min and max; None: no quota."""
        for extender in self.stage.running():
            bounds = partial(extender.bounds, self.name, GPU)
            texts = f"{extender.name} knowing min {least} and max {most} of {self.name}"
            until(lambda bounds=bounds: bounds() == (least, most), texts)  # type: ignore[misc]

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"

    @property
    def quota(self) -> str:
        return f"{QUOTAS}/namespaces/{self.name}/elasticquotas/{self.name}"

    def pod(self, name: str, scheduler: str, gpus: int = 1, **more: Any) -> Json:  # noqa: ANN401 - as the stage takes it
        amounts = {"cpu": "100m", "memory": "128Mi", GPU: f"{gpus}"}
        pod = self.stage.pod(name, scheduler, requests=amounts, limits={GPU: f"{gpus}"}, **more)
        pod["metadata"]["namespace"] = self.name
        return pod

    def create(self, *pods: Json) -> None:
        self.stage.cluster.api.create_all((self.path, pod) for pod in pods)

    def read(self) -> dict[str, Json]:
        return {pod["metadata"]["name"]: pod for pod in self.stage.cluster.api.get(self.path)["items"]}

    def bound(self) -> dict[str, str]:
        return {name: pod["spec"]["nodeName"] for name, pod in self.read().items() if pod["spec"].get("nodeName")}

    def delete(self, *names: str) -> None:
        for name in names:
            self.stage.cluster.api.request("DELETE", f"{self.path}/{name}?gracePeriodSeconds=0")

    def clear(self) -> None:
        self.stage.cluster.api.request("DELETE", f"{self.path}?gracePeriodSeconds=0")
        until(lambda: not self.read(), f"the pods of {self.name} being gone")

    def close(self) -> None:
        """Delete the namespace and its quota, as the quota's min counts for all namespaces."""
        self.stage.cluster.api.request("DELETE", self.quota)
        self.stage.cluster.api.request("DELETE", f"/api/v1/namespaces/{self.name}")


def give_gpus(stage: Stage, gpus: int) -> None:
    for node in stage.nodes:
        status = {"capacity": {GPU: f"{gpus}"}, "allocatable": {GPU: f"{gpus}"}}
        stage.cluster.api.merge(f"/api/v1/nodes/{node}/status", {"status": status})


@contextmanager
def teams(stage: Stage, quotas: Mapping[str, tuple[int, int]]) -> Iterator[dict[str, Team]]:
    """Yield namespaces with quotas, by name; min and max are in GPUs."""
    made: dict[str, Team] = {}
    # The min of other quotas counts for these, too; namespaces of earlier tests may still be terminating.
    until(lambda: not stage.cluster.api.get(f"{QUOTAS}/elasticquotas")["items"], "the quotas of others being gone")
    try:
        for name, (least, most) in quotas.items():
            made[name] = Team.make(stage, name, least, most)
        yield made
    finally:
        for team in made.values():
            team.clear()
            team.close()


@dataclass
class Observed:
    """The states of some namespaces as a watch of all pods observes them, one after another."""

    stage: Stage
    namespaces: frozenset[str]
    used: dict[str, int] = field(default_factory=dict)  # GPUs of the bound pods, by namespace
    most: dict[str, int] = field(default_factory=dict)  # the maximum, by namespace
    most_together: int = 0  # the maximum of their sum
    bindings: int = 0  # the number of observed bindings
    deleted: dict[str, Json] = field(default_factory=dict)
    """Pods that were observed terminating or deleted, by uid, in their first such state."""
    broken: str = ""  # why the watch ended early
    gone: set[str] = field(default_factory=set)  # uids of deleted pods
    _charged: dict[str, tuple[str, int]] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)

    @classmethod
    @contextmanager
    def watching(cls, stage: Stage, *teams: Team) -> Iterator["Observed"]:
        """Watch until the end of the block, from its first event on."""
        observed = cls(stage, frozenset(team.name for team in teams))
        changes = stage.cluster.api.watch("/api/v1/pods")
        for pod in next(changes)[1]["items"]:
            observed._take("LISTED", pod)
        thread = threading.Thread(target=observed._follow, args=(changes,), daemon=True)
        thread.start()
        try:
            yield observed
        finally:
            observed._stop.set()
            observed._nudge()
            thread.join(120)
            assert not thread.is_alive(), "the watch does not end"

    def _follow(self, changes: Iterator[tuple[str, Json]]) -> None:
        try:
            for kind, pod in changes:
                self._take(kind, pod)
                if self._stop.is_set():
                    return
        except (OSError, ApiError) as error:
            self.broken = str(error)
        else:
            self.broken = "the API server ended the watch"

    def _nudge(self) -> None:
        """Trigger an event, so that the thread notices the end."""
        name = f"nudge-{time.monotonic_ns()}"
        self.stage.create(self.stage.pod(name, node=self.stage.nodes[0]))
        self.stage.cluster.api.request("DELETE", f"{self.stage.path}/{name}?gracePeriodSeconds=0")

    def _take(self, kind: str, pod: Json) -> None:
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        if namespace not in self.namespaces:
            return
        if kind == "DELETED" or pod["metadata"].get("deletionTimestamp"):
            self.deleted.setdefault(uid, pod)
        if kind == "DELETED":
            self.gone.add(uid)
        uses = kind != "DELETED" and pod["spec"].get("nodeName") and pod["status"].get("phase") not in _ENDED
        if not uses:
            self._charged.pop(uid, None)
        elif uid not in self._charged:
            self._charged[uid] = namespace, requested(pod)
            self.bindings += kind != "LISTED"
        self.used = dict.fromkeys(self.namespaces, 0)
        for owner, gpus in self._charged.values():
            self.used[owner] += gpus
        for owner, gpus in self.used.items():
            self.most[owner] = max(self.most.get(owner, 0), gpus)
        self.most_together = max(self.most_together, sum(self.used.values()))
