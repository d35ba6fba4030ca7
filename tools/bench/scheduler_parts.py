"""What runs beside the API server in the scheduler's benchmark: kube-scheduler and an extender, and their settings."""

import dataclasses
import json
import pkgutil
import ssl
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from crds.codec import json_name
from scheduler_plugins.plugins import PLUGINS
from tools.bench.rows import ROOT
from tools.devcluster import Cluster
from tools.devcluster.component import free_port
from tools.devcluster.process import Process, wait_until

SHIPPED = ROOT / "scheduler_plugins"
REQUESTS_PER_SECOND = 5000  # what kube-scheduler allows itself, so that it is not what limits
LONG_SECONDS = 86400  # reports are written once and stay fresh for the whole benchmark
START_SECONDS = 120.0
NONE, NOTHING, SHORTLIST, WEIGHTED = "none", "nothing", "shortlist", "weighted"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mode:
    """How pods are scheduled in a run."""

    kind: str  # none, nothing, shortlist or weighted
    size: int = 0  # how many names an answer has at most; 0: all (of `nothing`), or what the shipped profile says
    percentage: int | None = None  # percentageOfNodesToScore; None: what the shipped configuration says

    @property
    def title(self) -> str:
        """For people."""
        names = f"first {self.size} names" if self.size else "filter + prioritize"
        title = {
            NONE: "no extender",
            NOTHING: f"do-nothing extender, {names}",
            SHORTLIST: "all plugins, `shortlist`" + (f", K = {self.size}" if self.size else ""),
            WEIGHTED: "all plugins, `weighted`",
        }[self.kind]
        if self.percentage is None:
            return title
        share = f"{self.percentage} % of nodes" if self.percentage else "kube-scheduler's own share of nodes"
        return f"{title}, {share}"

    @property
    def scores(self) -> bool:
        """Whether kube-scheduler asks for scores."""
        return self.kind == WEIGHTED or (self.kind == NOTHING and not self.size)


def configuration(mode: Mode, kubeconfig: str, url: str) -> Json:
    """The shipped KubeSchedulerConfiguration for a mode, for one kube-scheduler without election."""
    found: Json = yaml.safe_load((SHIPPED / "kube-scheduler-configuration.yaml").read_text(encoding="utf-8"))
    found["leaderElection"] = {"leaderElect": False}
    found["clientConnection"] = {"kubeconfig": kubeconfig, "qps": REQUESTS_PER_SECOND, "burst": REQUESTS_PER_SECOND}
    if mode.percentage is not None:
        found["percentageOfNodesToScore"] = mode.percentage
    (extender,) = found.pop("extenders")
    if mode.kind != NONE:
        asked = {"prioritizeVerb": "prioritize", "weight": 1} if mode.scores else {}
        # A machine that is busy with other things must not look like an extender that is away.
        own = {"urlPrefix": url, "httpTimeout": "30s", "ignorable": False}
        found["extenders"] = [{**extender, **own, **asked}]
    return found


def scheduler_name() -> str:
    """What pods have to ask for."""
    found = configuration(Mode(NONE), "", "")
    return str(found["profiles"][0]["schedulerName"])


def profile(mode: Mode) -> Json:
    """The shipped profile with every plugin that there is, for a mode; reports expire late."""
    found: Json = yaml.safe_load((SHIPPED / "profile.yaml").read_text(encoding="utf-8"))
    named = {part["name"] for part in found["plugins"]}
    found["plugins"] += [{"name": name, "weight": 1} for name in PLUGINS if name not in named]
    for part in found["plugins"]:
        kind = pkgutil.resolve_name(PLUGINS[part["name"]])
        ages = [json_name(one.name) for one in dataclasses.fields(kind) if one.name.endswith("expiration_seconds")]
        part["args"] = {**(part.get("args") or {}), **dict.fromkeys(ages, LONG_SECONDS)}
    found["mode"] = mode.kind
    if mode.kind == SHORTLIST and mode.size:
        found["shortlist"] = {**found.get("shortlist", {}), "size": mode.size, "share": 0}
    return found


@dataclass(frozen=True, slots=True)
class Extender:
    """A running extender, ours or the one that does nothing."""

    mode: Mode
    process: Process
    port: int

    @classmethod
    def start(cls, cluster: Cluster, mode: Mode) -> "Extender":
        """Start it and wait until it answers.

        Raises:
            DevClusterError: it ended, or did not get ready.
        """
        port = free_port()
        if mode.kind == NOTHING:
            words = ["tools.bench.scheduler_noop", str(port), str(mode.size)]
        else:
            path = cluster.dir / "profile.yaml"
            path.write_text(yaml.safe_dump(profile(mode)), encoding="utf-8")
            listen = f"--listen=127.0.0.1:{port}"
            words = ["scheduler_plugins", f"--kubeconfig={cluster.kubeconfig}", f"--profile={path}", listen]
        process = cluster.supervisor.start("extender", [sys.executable, "-m", *words], cwd=ROOT)
        extender = cls(mode, process, port)
        try:
            wait_until(lambda: _get(f"{extender.url}/healthz"), "the extender's start", START_SECONDS, [process], 0.2)
        except BaseException:
            process.stop()
            raise
        return extender

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def figures(self) -> dict[str, float]:
        """Names per call of the one that does nothing; milliseconds per request of ours."""
        if self.mode.kind == NOTHING:
            counts = json.loads(_get(f"{self.url}/counts"))
            verbs = [verb for verb in ("filter", "prioritize") if counts.get(f"{verb} calls")]
            return {f"{verb} names": counts[f"{verb} names"] / counts[f"{verb} calls"] for verb in verbs}
        text = _get(f"{self.url}/metrics")
        means = {verb: mean_ms(text, "headroom_scheduler_request_seconds", f'verb="{verb}"') for verb in VERBS}
        return {f"{verb} ms": mean for verb, mean in means.items() if mean is not None}


VERBS = ("filter", "prioritize")


@dataclass(frozen=True, slots=True)
class KubeScheduler:
    """A running kube-scheduler."""

    process: Process
    port: int

    @classmethod
    def start(cls, cluster: Cluster, mode: Mode, url: str) -> "KubeScheduler":
        """Start it; it begins with the pods that wait at once."""
        plane, port = cluster.control_plane, free_port()
        kubeconfig = str(plane.pki.directory / "scheduler.kubeconfig")
        path = cluster.dir / "scheduler.yaml"
        path.write_text(yaml.safe_dump(configuration(mode, kubeconfig, url)), encoding="utf-8")
        serving = [f"--secure-port={port}", "--bind-address=127.0.0.1", "--authorization-always-allow-paths=/metrics"]
        command: list[str | Path] = [plane.binaries.path("kube-scheduler"), f"--config={path}", *serving]
        return cls(cluster.supervisor.start("scheduler", command, cwd=cluster.dir), port)

    def algorithm_ms(self) -> float | None:
        """What its scheduling algorithm took per pod by its own account; None: it does not say. [ms]"""
        try:
            text = _get(f"https://127.0.0.1:{self.port}/metrics")
        except OSError:
            return None
        return mean_ms(text, "scheduler_scheduling_algorithm_duration_seconds")


def mean_ms(text: str, histogram: str, label: str = "") -> float | None:
    """Mean of a histogram in Prometheus' text format, over all its series that have the label. [ms]"""
    sums = {"_sum": 0.0, "_count": 0.0}
    for line in text.splitlines():
        key, _, value = line.rpartition(" ")
        name, _, labels = key.partition("{")
        for suffix in sums:
            if name == histogram + suffix and label in labels:
                sums[suffix] += float(value)
    return sums["_sum"] / sums["_count"] * 1000 if sums["_count"] else None


def _get(url: str) -> str:
    """The text of a page.

    Raises:
        OSError: there is none, or another status than 200.
    """
    # Both serve on loopback and are ours; kube-scheduler makes its own certificate.
    unchecked = ssl._create_unverified_context() if url.startswith("https") else None  # noqa: S323, SLF001
    with urllib.request.urlopen(url, timeout=10, context=unchecked) as answer:  # noqa: S310 - http or https
        return str(answer.read().decode())
