"""A real kube-scheduler with its results per node, and random pods that use all of its filters."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Thread
from typing import Any, Final

from tools.devcluster import Cluster
from tools.devcluster.component import Component

Json = dict[str, Any]

_END: Final = re.compile(r"\.(?: no new claims| preemption:|$)")
"""Text after the reasons."""
_POLL_SECONDS: Final = 0.005
_PATIENCE_SECONDS: Final = 120.0


class Listener:
    """An extender that rejects no node and records the nodes of each request: those that pass all in-tree filters."""

    def __init__(self) -> None:
        self.fit: dict[str, frozenset[str]] = {}
        """Nodes by the uid of the pod."""
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                arguments = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                names = arguments["NodeNames"]
                listener.fit[arguments["Pod"]["metadata"]["uid"]] = frozenset(names)
                answer = json.dumps({"NodeNames": names}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class KubeScheduler:
    """A kube-scheduler with all its own filters, which filters every node."""

    def __init__(self, cluster: Cluster, name: str, listener: Listener, component: Component) -> None:
        self.cluster = cluster
        self.name = name
        self.component = component
        self._listener = listener

    @classmethod
    @contextmanager
    def run(cls, cluster: Cluster, name: str) -> Iterator["KubeScheduler"]:
        """Start a kube-scheduler, and stop it at the end."""
        listener = Listener()
        extender = {"urlPrefix": listener.url, "filterVerb": "filter", "nodeCacheCapable": True, "httpTimeout": "30s"}
        result = {
            "percentageOfNodesToScore": 100,
            "profiles": [{"schedulerName": name}],
            "extenders": [extender],
        }
        component = cluster.control_plane.add_scheduler(name, result)
        try:
            yield cls(cluster, name, listener, component)
        finally:
            component.stop()
            listener.close()

    def evaluator(self, pod: Json) -> tuple[Json, frozenset[str], Mapping[str, int]]:
        """Create a pod and wait until kube-scheduler has tried it.

        Returns:
            The pod after the attempt, the nodes that fit, and, if none does, the number of nodes per reason.
        """
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
        self.cluster.api.request("POST", path, pod)
        evaluated = self._wait(f"{path}/{pod['metadata']['name']}")
        if evaluated["spec"].get("nodeName"):
            return evaluated, self._listener.fit[evaluated["metadata"]["uid"]], {}
        (condition,) = (
            condition for condition in evaluated["status"]["conditions"] if condition["type"] == "PodScheduled"
        )
        return evaluated, frozenset(), reasons(condition["message"])

    def _wait(self, path: str) -> Json:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            pod = self.cluster.api.get(path)
            conditions = pod["status"].get("conditions", ())
            if pod["spec"].get("nodeName") or any(
                condition.get("reason") == "Unschedulable" for condition in conditions
            ):
                return pod
            time.sleep(_POLL_SECONDS)
        raise AssertionError(f"{path}: not evaluated within {_PATIENCE_SECONDS:.0f} s")


def reasons(message: str) -> Counter[str]:
    """Return the number of nodes per reason, from kube-scheduler's message when no node fits."""
    text = _END.split(message.partition("are available: ")[2])[0]
    counted = (part.partition(" ") for part in text.split(", ") if part)
    return Counter({reason: int(count) for count, _, reason in counted})


ZONE: Final = "fit/zone"
"""Label of most nodes."""
RANK: Final = "fit/rank"
"""Label of nodes with numbers and other text."""
POOL: Final = "fit/pool"
"""Label and taint of the nodes."""
ZONES: Final = ("a", "b", "c")
NAMESPACES: Final = ("fit-one", "fit-two")
"""The first has the label `team: one`, the second `team: two` and `prod: yes`."""
GPU: Final = "example.com/gpu"
_TOLERATION: Final = {"key": POOL, "operator": "Exists"}


class RandomPods:
    """Generates pods, the same ones for the same seed."""

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
        result = [entry for entry in more if self._one_in(4)]
        return result if self._one_in(20) else [_TOLERATION, *result]

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
