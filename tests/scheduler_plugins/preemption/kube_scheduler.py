"""A real kube-scheduler whose every answer is known: which nodes it found fit for a pod, or why it found none."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

from tools.devcluster import Cluster
from tools.devcluster.component import Component

Json = dict[str, Any]

_END: Final = re.compile(r"\.(?: no new claims| preemption:|$)")
"""What follows the reasons."""
_POLL_SECONDS: Final = 0.005
_PATIENCE_SECONDS: Final = 120.0


class Listener:
    """An extender that refuses nothing and remembers which nodes it was sent: those that pass all in-tree filters."""

    def __init__(self) -> None:
        self.fit: dict[str, frozenset[str]] = {}
        """The nodes by the pod's uid."""
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                names = asked["NodeNames"]
                listener.fit[asked["Pod"]["metadata"]["uid"]] = frozenset(names)
                answer = json.dumps({"NodeNames": names}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

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
    """A kube-scheduler with all its own filters, which looks at every node."""

    def __init__(self, cluster: Cluster, name: str, listener: Listener, component: Component) -> None:
        self.cluster = cluster
        self.name = name
        self.component = component
        self._listener = listener

    @classmethod
    @contextmanager
    def run(cls, cluster: Cluster, name: str) -> Iterator["KubeScheduler"]:
        """Start one, and end it."""
        listener = Listener()
        extender = {"urlPrefix": listener.url, "filterVerb": "filter", "nodeCacheCapable": True, "httpTimeout": "30s"}
        found = {
            "percentageOfNodesToScore": 100,
            "profiles": [{"schedulerName": name}],
            "extenders": [extender],
        }
        component = cluster.control_plane.add_scheduler(name, found)
        try:
            yield cls(cluster, name, listener, component)
        finally:
            component.stop()
            listener.close()

    def evaluator(self, pod: Json) -> tuple[Json, frozenset[str], Mapping[str, int]]:
        """Create a pod and wait until it was judged.

        Returns:
            The pod as it is then, the nodes that fit, and where none does how many nodes have each reason.
        """
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
        self.cluster.api.request("POST", path, pod)
        judged = self._wait(f"{path}/{pod['metadata']['name']}")
        if judged["spec"].get("nodeName"):
            return judged, self._listener.fit[judged["metadata"]["uid"]], {}
        (condition,) = (each for each in judged["status"]["conditions"] if each["type"] == "PodScheduled")
        return judged, frozenset(), reasons(condition["message"])

    def _wait(self, path: str) -> Json:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            pod = self.cluster.api.get(path)
            conditions = pod["status"].get("conditions", ())
            if pod["spec"].get("nodeName") or any(each.get("reason") == "Unschedulable" for each in conditions):
                return pod
            time.sleep(_POLL_SECONDS)
        raise AssertionError(f"{path}: not judged within {_PATIENCE_SECONDS:.0f} s")


def reasons(message: str) -> Counter[str]:
    """How many nodes have each reason, as kube-scheduler says when it finds no node."""
    text = _END.split(message.partition("are available: ")[2])[0]
    counted = (part.partition(" ") for part in text.split(", ") if part)
    return Counter({reason: int(count) for count, _, reason in counted})
