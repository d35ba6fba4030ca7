"""Teams with an ElasticQuota each on a stage: what runs and waits of theirs, what they use, and who was evicted."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from crds.elastic_quota import GROUP, VERSION
from crds.quantity import parse_quantity
from tests.audited import audited
from tests.scheduler_plugins import priorities
from tests.scheduler_plugins.extenders import ROOT, Extender, Json, profile, until
from tests.scheduler_plugins.requeue.quiet import metric
from tests.scheduler_plugins.stage import CORES, Stage
from tools.devcluster import Cluster
from tools.devcluster.api import ApiError

NOT_FOUND: Final = 404
GPU: Final = "nvidia.com/gpu"
PRIORITIES: Final = {"teams-low": 10, "teams-high": 1000}
ROUNDS: Final = 3  # how often the controller looks again before what is so counts as what stays so


@dataclass(frozen=True)
class Standing:
    used: int
    """Of the resource, by bound pods that have not ended: what the API says of the pods, and its quota's status."""
    runs: frozenset[str]  # names of its pods that run
    waits: frozenset[str]  # names of its pods that are pending


def standing(used: int, runs: str = "", waits: str = "") -> Standing:
    return Standing(used, frozenset(runs.split()), frozenset(waits.split()))


@dataclass
class Teams:
    """Namespaces with quotas over one resource, on the nodes of a stage."""

    stage: Stage
    scheduler: str  # the kube-scheduler that their pods ask for
    extender: Extender
    resource: str = GPU  # what the quotas are about
    pool: str = ""  # the nodes that their pods may use, by the label of that name
    names: list[str] = field(default_factory=list)  # of the teams; `namespace` has their namespaces
    _scene: int = 0  # which one this is, so that each has namespaces of its own

    @classmethod
    @contextmanager
    def open(cls, cluster: Cluster, name: str) -> Iterator["Teams"]:
        """A stage without nodes, with an extender and the kube-scheduler of this name, and their quotas' CRD."""
        cluster.define(ROOT / "crds" / "elastic_quota.yaml")
        with Stage.open(cluster, name, 0) as stage:
            for each, value in PRIORITIES.items():
                priorities.make(cluster, each, value)
            extender = stage.add(name, shipped(name))
            stage.wait()
            teams = cls(stage, name, extender)
            yield teams
            teams.clear()
            for each in PRIORITIES:
                priorities.remove(cluster, each)

    # The scene

    def nodes(self, *amounts: int) -> list[str]:
        """Make nodes for the pods that are submitted from now on: one with each of these amounts of the resource."""
        stage, self.pool = self.stage, f"{self.stage.name}-{self._scene}"
        made = []
        for amount in amounts:
            (node,) = stage.add_nodes(
                1, pool=self.pool, prefix=self.pool, cpu=str(amount) if self.resource == "cpu" else f"{CORES}"
            )
            if self.resource != "cpu":
                status = {"capacity": {self.resource: str(amount)}, "allocatable": {self.resource: str(amount)}}
                stage.cluster.api.merge(f"/api/v1/nodes/{node}/status", {"status": status})
            made.append(node)
        stage.nodes += made
        return made

    def add(self, team: str, least: int, most: int) -> None:
        self.stage.cluster.create_namespace(self.namespace(team))
        self.names.append(team)
        self.promise(team, least, most)

    def promise(self, team: str, least: int, most: int) -> None:
        """Give a team a quota, or change the one it has, and wait until the extender knows: pods may come before."""
        spec = {"min": {self.resource: str(least)}, "max": {self.resource: str(most)}}
        if self.stage.cluster.api.exists(self.quota(team)):
            self.stage.cluster.api.merge(self.quota(team), {"spec": spec})
        else:
            kind = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "ElasticQuota", "metadata": {"name": "quota"}}
            self.stage.cluster.api.request("POST", self.quota(team).removesuffix("/quota"), {**kind, "spec": spec})
        told = f"the extender knowing min {least} and max {most} of {team}"
        until(lambda: self.bounds(team) == (least, most), told)

    def bounds(self, team: str) -> tuple[float | None, float | None]:
        """Min and max that the extender goes by for a team; None where it knows of none."""
        return self.extender.bounds(self.namespace(team), self.resource)

    def configure(self, **reclaim: object) -> None:
        path = self.stage.cluster.dir / f"{self.extender.name}-profile.yaml"
        path.write_text(yaml.safe_dump(shipped(self.scheduler, **reclaim)), encoding="utf-8")
        self.extender.kill()
        self.extender.restart()

    def clear(self) -> None:
        """Remove all teams with what is theirs, and wait until no pod is left; later teams get other namespaces."""
        api = self.stage.cluster.api
        there = [team for team in self.names if api.exists(f"/api/v1/namespaces/{self.namespace(team)}")]
        for team in there:
            api.request("DELETE", f"/apis/apps/v1/namespaces/{self.namespace(team)}/deployments")
            api.request("DELETE", self.quota(team).removesuffix("/quota"))  # all that it has
            api.request("DELETE", f"{self.pods(team)}?gracePeriodSeconds=0")
            api.request("DELETE", f"/api/v1/namespaces/{self.namespace(team)}")
        until(lambda: not any(api.get(self.pods(team))["items"] for team in there), "the teams' pods being gone")
        # What they were guaranteed would count in the next scene.
        until(lambda: all(self.bounds(team) == (None, None) for team in there), "the extender knowing of no quota")
        self.names, self._scene = [], self._scene + 1

    # What teams do

    def namespace(self, team: str) -> str:
        return f"{self.stage.name}-{self._scene}-{team}"

    def quota(self, team: str) -> str:
        return f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace(team)}/elasticquotas/quota"

    def pods(self, team: str, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace(team)}/pods{'/' if name else ''}{name}"

    def pod(self, team: str, name: str, amount: int, **spec: Any) -> Json:  # noqa: ANN401 - any field of a PodSpec
        """A pod of a team that asks for the resource alone, as the sum of min leaves nothing of any other."""
        asked = {self.resource: str(amount)}
        spec = {"terminationGracePeriodSeconds": 30, **spec}
        made = self.stage.pod(name, self.scheduler, requests=asked, limits=asked, selector={"pool": self.pool}, **spec)
        made["metadata"]["namespace"] = self.namespace(team)
        return made

    def submit(self, team: str, name: str, amount: int, **spec: Any) -> None:  # noqa: ANN401 - any field of a PodSpec
        self.stage.cluster.api.request("POST", self.pods(team), self.pod(team, name, amount, **spec))

    def deploy(self, team: str, name: str, replicas: int, amount: int, **spec: Any) -> None:  # noqa: ANN401 - a PodSpec
        """Create a Deployment; its pods are called `<name>-1` and so on here, whatever they are called."""
        labels = {"app": name}
        pod = {"metadata": {"labels": labels}, "spec": self.pod(team, name, amount, **spec)["spec"]}
        content = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod}
        path = f"/apis/apps/v1/namespaces/{self.namespace(team)}/deployments"
        self.stage.cluster.api.request("POST", path, {"metadata": {"name": name}, "spec": content})

    def finish(self, team: str, *names: str) -> None:
        for name in names:
            self.stage.cluster.api.request("DELETE", f"{self.pods(team, name)}?gracePeriodSeconds=0")

    def next_second(self) -> None:
        """Wait until pods start later than all that run now: the API writes whole seconds."""
        second = int(time.time())
        until(lambda: int(time.time()) > second, "the next second")

    # What became of it

    def stands(self, team: str) -> Standing:
        items = self.stage.cluster.api.get(self.pods(team))["items"]
        live = [pod for pod in items if pod["status"].get("phase") not in ("Succeeded", "Failed")]
        bound = [pod for pod in live if pod["spec"].get("nodeName")]
        runs = [pod for pod in bound if pod["status"]["phase"] == "Running" and not _ending(pod)]
        waits = [pod for pod in live if not pod["spec"].get("nodeName") and not _ending(pod)]
        return Standing(sum(map(self._asked, bound)), _called(runs), _called(waits))

    def only(self, team: str) -> str:
        def found() -> str:
            items = self.stage.cluster.api.get(self.pods(team))["items"]
            return items[0]["metadata"]["name"] if len(items) == 1 else ""

        return str(until(found, f"one pod of {team}"))

    def where(self, team: str) -> list[str]:
        items = self.stage.cluster.api.get(self.pods(team))["items"]
        return [pod["spec"]["nodeName"] for pod in items if pod["spec"].get("nodeName")]

    def _asked(self, pod: Json) -> int:
        (container,) = pod["spec"]["containers"]
        given = [status.get("allocatedResources", {}) for status in pod["status"].get("containerStatuses") or ()]
        known = [container["resources"]["requests"], *(each for each in given if self.resource in each)]
        return int(max(parse_quantity(each[self.resource]) for each in known))

    def reported(self, team: str) -> int | None:
        """What the status of a team's quota says that it uses; None: it has no quota; -1: the status says nothing."""
        try:
            used = self.stage.cluster.api.get(self.quota(team)).get("status", {}).get("used", {})
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            return None
        return int(parse_quantity(used.get(self.resource, -1)))

    def reach(self, **teams: Standing) -> None:
        """Wait until teams have this, by their pods and by the status of their quotas."""
        seen: dict[str, Any] = {}

        def there() -> bool:
            seen.update({team: (self.stands(team), self.reported(team)) for team in teams})
            return all(seen[team] in ((wanted, wanted.used), (wanted, None)) for team, wanted in teams.items())

        until(there, lambda: f"{teams} instead of {seen}; evicted: {self.evicted()}")

    def stay(self, **teams: Standing) -> None:
        """See that teams have this, and still have it when kube-scheduler and the controller have looked again."""
        self.reach(**teams)
        self.rest()
        self.reach(**teams)

    def rest(self) -> None:
        """Wait until the controller has looked at the pods several times more."""
        before = metric(self.extender, "reclaim_rounds_total")
        until(lambda: metric(self.extender, "reclaim_rounds_total") >= before + ROUNDS, "further rounds of reclaim")

    def evicted(self) -> list[str]:
        """Names of these teams' pods that we or kube-scheduler evicted, in order, from the audit log."""
        found, mark = [], f'"namespace":"{self.namespace("")}'
        for event in audited(self.stage.cluster, mark):
            about, code = event["objectRef"], event.get("responseStatus", {}).get("code", 0)
            by_us = event.get("userAgent", "").startswith("headroom") or "kube-scheduler" in event["user"]["username"]
            ends = event["verb"] == "delete" or (event["verb"] == "create" and about.get("subresource") == "eviction")
            if about["resource"] == "pods" and by_us and ends and code < 300:
                found.append(about["name"])
        return found

    def lost(self, *names: str) -> None:
        """Wait until just these pods were evicted, in this order: the audit log is written after the answers."""
        until(lambda: self.evicted() == list(names), lambda: f"{names} evicted: {self.evicted()}")

    def notes(self, team: str, name: str) -> str:
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace(team)}/events"
        items = self.stage.cluster.api.get(path)["items"]
        about = [event for event in items if event["regarding"].get("name") == name]
        return "\n".join(f"{event['reason']}: {event.get('note', '')}" for event in about)

    def told(self, team: str, name: str, *words: str) -> str:
        """Wait until one event about a pod has all these words, and return it."""

        def found() -> str:
            return next(
                (note for note in self.notes(team, name).splitlines() if all(map(note.__contains__, words))), ""
            )

        return str(until(found, lambda: f"{words} in the events of {name}: {self.notes(team, name)}"))


def shipped(name: str, **reclaim: object) -> Json:
    """The profile of the extender beside the kube-scheduler of this name."""
    arguments = {"maxMissing": "infinite", "reclaim": {"schedulerNames": [name], **reclaim}}
    return profile(plugins=[{"name": "CapacityScheduling", "args": arguments}])


def _ending(pod: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _called(pods: list[Json]) -> frozenset[str]:
    apps = Counter(_app(pod) for pod in pods)
    of_apps = {f"{app}-{number}" for app, count in apps.items() if app for number in range(1, count + 1)}
    return frozenset(of_apps | {pod["metadata"]["name"] for pod in pods if not _app(pod)})


def _app(pod: Mapping[str, Any]) -> str:
    return str((pod["metadata"].get("labels") or {}).get("app", ""))
