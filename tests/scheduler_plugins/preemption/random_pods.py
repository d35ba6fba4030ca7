"""Random pods that ask for everything that the model of kube-scheduler's filters knows."""

from random import Random
from typing import Any, Final

Json = dict[str, Any]

ZONE: Final = "fit/zone"
"""Label of most nodes."""
RANK: Final = "fit/rank"
"""Label of nodes with numbers and what is none."""
POOL: Final = "fit/pool"
"""Label and taint of the nodes."""
ZONES: Final = ("a", "b", "c")
NAMESPACES: Final = ("fit-one", "fit-two")
"""The first has the label `team: one`, the second `team: two` and `prod: yes`."""
GPU: Final = "example.com/gpu"
_TOLERATION: Final = {"key": POOL, "operator": "Exists"}


class RandomPods:
    """Makes pods, the same ones for the same seed."""

    def __init__(self, seed: int, scheduler: str, nodes: list[str]) -> None:
        self._random = Random(seed)  # noqa: S311 - nothing secret
        self._scheduler = scheduler
        self._nodes = nodes
        self._made = 0

    def make(self) -> Json:
        self._made += 1
        spec: Json = {
            "schedulerName": self._scheduler,
            "terminationGracePeriodSeconds": 0,
            "tolerations": self._tolerations(),
            "containers": [self._container("main")],
            "affinity": {},
        }
        if self._one_in(4):
            init = self._container("init")
            spec["initContainers"] = [{**init, **({"restartPolicy": "Always"} if self._one_in(2) else {})}]
        if self._one_in(6):
            spec["resources"] = {"requests": {"cpu": "1200m", "memory": "2Gi"}}
        if not self._one_in(6):
            spec["nodeSelector"] = {POOL: "yes"}
        if self._one_in(3):
            terms = [self._node_term() for _ in range(self._random.randint(1, 2))]
            spec["affinity"]["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": terms}}
        namespace = self._random.choice(NAMESPACES)
        labels = {"app": self._random.choice("abc"), "tier": self._random.choice("xy")}
        metadata = {"namespace": namespace, "name": f"pod-{self._made}", "labels": labels}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _one_in(self, count: int) -> bool:
        return self._random.randrange(count) == 0

    def _container(self, name: str) -> Json:
        requests = {"cpu": self._random.choice(["0", "50m", "200m", "600m"])}
        if self._one_in(2):
            requests["memory"] = self._random.choice(["64Mi", "300Mi", "1Gi"])
        made: Json = {"name": name, "image": "localhost/pause:dev", "resources": {"requests": requests}}
        if self._one_in(5):
            requests[GPU] = self._random.choice(["1", "2"])
            made["resources"]["limits"] = {GPU: requests[GPU]}
        if self._one_in(5):
            port = self._random.choice([7001, 7002])
            address = self._random.choice([{}, {"hostIP": "127.0.0.1"}, {"hostIP": "10.9.9.9"}])
            protocol = self._random.choice(["TCP", "UDP"])
            made["ports"] = [{"containerPort": port, "hostPort": port, "protocol": protocol, **address}]
        return made

    def _tolerations(self) -> list[Json]:
        more: list[Json] = [
            {"key": "fit/only", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "fit/only", "value": "x"},
            {"key": "fit/out", "operator": "Exists"},
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
            {"operator": "Exists", "effect": "NoExecute"},
        ]
        found = [each for each in more if self._one_in(4)]
        return found if self._one_in(20) else [_TOLERATION, *found]

    def _node_term(self) -> Json:
        zones = self._random.sample(ZONES, self._random.randint(1, 2))
        expressions = [
            {"key": ZONE, "operator": "In", "values": zones},
            {"key": ZONE, "operator": "NotIn", "values": zones},
            {"key": ZONE, "operator": "Exists"},
            {"key": ZONE, "operator": "DoesNotExist"},
            {"key": RANK, "operator": "Gt", "values": [str(self._random.randint(0, 5))]},
            {"key": RANK, "operator": "Lt", "values": [str(self._random.randint(1, 6))]},
        ]
        term: Json = {}
        if not self._one_in(5):
            term["matchExpressions"] = self._random.sample(expressions, self._random.randint(1, 2))
        if not term or self._one_in(5):
            operator = self._random.choice(["In", "NotIn"])
            names = [self._random.choice(self._nodes)]
            term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": names}]
        return term


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
