"""Extenders that run beside the dev cluster's kube-schedulers, and the configurations of both."""

import json
import re
import ssl
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from tools.devcluster import Cluster
from tools.devcluster.component import free_port
from tools.devcluster.process import Process

ROOT: Final = Path(__file__).parents[2]
REFERENCE: Final = ROOT / "scheduler_plugins" / "kube-scheduler-configuration.yaml"
"""The shipped configuration of kube-scheduler; every kube-scheduler of these tests uses it."""
PROFILE: Final = ROOT / "scheduler_plugins" / "profile.yaml"  # the shipped profile of the extender
PATIENCE_SECONDS: Final = 120.0
ANSWER_SECONDS: Final = 60.0
"""Timeout of requests to an extender, long enough that a busy machine does not count as an outage. [s]"""
ROUNDS: Final = 3  # rounds of the controller before a state counts as final
PLAIN: Final = "default-scheduler"  # the cluster's own kube-scheduler without the extender: the counterfactual
NO_SCORES: Final = {"score": {"disabled": [{"name": "*"}]}}
"""Plugins of a kube-scheduler in which only an extender scores."""

Json = dict[str, Any]


def until(condition: Callable[[], Any], what: str | Callable[[], str]) -> Any:  # noqa: ANN401 - as the condition gives
    """Wait until the condition holds, and return its result. A server that does not respond counts as false.

    Raises AssertionError: it does not within `PATIENCE_SECONDS`.
    """
    deadline, problem = time.monotonic() + PATIENCE_SECONDS, ""
    while time.monotonic() < deadline:
        try:
            if result := condition():
                return result
            problem = ""
        except OSError as error:
            problem = f" ({error})"
        time.sleep(0.1)
    texts = what if isinstance(what, str) else what()
    raise AssertionError(f"{texts}: not within {PATIENCE_SECONDS:.0f} s{problem}")


def configuration(mode: str, name: str, url: str) -> Json:
    """Return the shipped configuration of kube-scheduler for a mode; its comments hold the additions of `weighted`."""
    text = REFERENCE.read_text(encoding="utf-8")
    if mode == "weighted":
        keys = r"(?:plugins|prioritizeVerb|weight|  multiPoint|    enabled):.*|      - \{name.*"
        text = re.sub(rf"^( *)# ({keys})$", r"\1\2", text, flags=re.MULTILINE)
    result: Json = yaml.safe_load(text)
    (profile,), (extender,) = result["profiles"], result["extenders"]
    profile["schedulerName"], extender["urlPrefix"] = name, url
    extender["httpTimeout"] = f"{ANSWER_SECONDS:.0f}s"
    return result


def profile(mode: str = "shortlist", plugins: Sequence[Json] = (), **settings: Any) -> Json:  # noqa: ANN401 - of a file
    """Return the shipped profile with other plugins (if any are given) and settings."""
    result: Json = {**yaml.safe_load(PROFILE.read_text(encoding="utf-8")), "mode": mode, **settings}
    return {**result, "plugins": list(plugins)} if plugins else result


def load_aware(weight: float = 1, **arguments: Any) -> Json:  # noqa: ANN401 - any argument of the plugin
    return {"name": "LoadAwareScheduling", "weight": weight, "args": arguments}


@dataclass
class Extender:
    cluster: Cluster
    name: str
    port: int
    command: Sequence[str]
    process: Process
    context: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self.context else 'http'}://127.0.0.1:{self.port}"

    @classmethod
    def start(
        cls,
        cluster: Cluster,
        name: str,
        content: Mapping[str, Any],
        flags: Sequence[str] = (),
        context: ssl.SSLContext | None = None,
        module: str = "scheduler_plugins",
    ) -> "Extender":
        path, port = cluster.dir / f"{name}-profile.yaml", free_port()
        path.write_text(yaml.safe_dump(dict(content)), encoding="utf-8")
        words = [sys.executable, "-m", module, f"--kubeconfig={cluster.kubeconfig}", f"--profile={path}"]
        words += [f"--listen=127.0.0.1:{port}", *flags]
        return cls(cluster, name, port, words, cls._launch(cluster, name, words), context)

    @staticmethod
    def _launch(cluster: Cluster, name: str, words: Sequence[str]) -> Process:
        return cluster.supervisor.start(name, words, cwd=ROOT)

    def restart(self) -> None:
        self.process = self._launch(self.cluster, self.name, self.command)
        self.wait()

    def kill(self) -> None:
        self.process.kill()
        until(lambda: not self.process.running, f"{self.name} being gone")

    def wait(self) -> None:
        """Wait until the extender has read the cluster. Raises DevClusterError: it has ended; with its last log."""
        until(self._begun, f"extender {self.name} being healthy")

    def _begun(self) -> bool:
        self.process.require_running()
        return self.healthy()

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """Send a request, and return the response. Raises OSError: no response, or not a successful one."""
        data = None if body is None else msgspec.json.encode(body)
        with urllib.request.urlopen(  # noqa: S310 - http or https
            f"{self.url}{path}", data=data, timeout=ANSWER_SECONDS, context=self.context
        ) as response:
            return bytes(response.read())

    def healthy(self) -> bool:
        try:
            self.ask("/healthz")
        except OSError:
            return False
        return True

    def known(self, node: str) -> Json:
        result: Json = json.loads(self.ask(f"/debug/nodes/{node}"))
        return result

    def bounds(self, namespace: str, resource: str) -> tuple[float | None, float | None]:
        """Return the min and max that the extender uses for a namespace; None where it has none."""
        result: dict[str, float] = {}
        marks = (f'quota_namespace="{namespace}"', f'resource="{resource}"')
        for line in self.ask("/metrics").decode().splitlines():
            name, _, rest = line.removeprefix("headroom_scheduler_quota_").partition("{")
            if name in ("min", "max") and all(mark in rest for mark in marks):
                result[name] = float(line.rpartition(" ")[2])
        return result.get("min"), result.get("max")

    def passing(self, *names: str) -> list[str]:
        """Return the nodes that pass, one request per node, for a pod without usage, which is not charged."""
        probe = {"metadata": {"name": "probe"}, "spec": {"priority": 3500, "containers": [{"name": "main"}]}}
        bodies = {name: {"Pod": probe, "Nodes": None, "NodeNames": [name]} for name in names}
        return [name for name, body in bodies.items() if json.loads(self.ask("/filter", body))["NodeNames"]]

    def metric(self, name: str) -> float:
        """Return the sum of a metric over its labels."""
        lines = self.ask("/metrics").decode().splitlines()
        result = [line for line in lines if line.partition(" ")[0].partition("{")[0] == f"headroom_scheduler_{name}"]
        return sum(float(line.rpartition(" ")[2]) for line in result)

    def quiet(self) -> None:
        """Wait until kube-scheduler sends no requests: it tries a pod twice, as its own status update requeues it."""
        name, observed = "request_seconds_count", [-1.0, float("inf")]

        def calm() -> bool:
            observed.append(self.metric(name))
            time.sleep(3)  # its back-off is 1 s after the first attempt and 2 s after the second
            return observed[-1] == observed[-2]

        until(calm, "no further requests of kube-scheduler")

    def wait_for_rounds(self) -> None:
        """Wait until the controller has run several more rounds."""
        before = self.metric("reclaim_rounds_total")
        until(lambda: self.metric("reclaim_rounds_total") >= before + ROUNDS, "further rounds of reclaim")
