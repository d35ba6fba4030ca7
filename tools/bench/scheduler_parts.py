"""Programs beside the API server in the scheduler's benchmark: kube-scheduler and an extender, and their settings."""

import dataclasses
import json
import os
import pkgutil
import ssl
import sys
import sysconfig
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from crds.codec import json_name
from scheduler_plugins.plugins import PLUGINS
from tools.bench.rows import ROOT
from tools.devcluster import Cluster
from tools.devcluster.component import free_port
from tools.devcluster.process import Process, wait_until

SHIPPED: Final = ROOT / "scheduler_plugins"
LONG_SECONDS: Final = 86400  # reports are written once and stay fresh for the whole benchmark
START_SECONDS: Final = 120.0
NONE, NOTHING, SHORTLIST, WEIGHTED = "none", "nothing", "shortlist", "weighted"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mode:
    """The scheduler configuration of a run."""

    kind: str  # NONE, NOTHING, SHORTLIST or WEIGHTED
    title: str = ""
    names: int = 0  # number of names that the no-op extender returns; 0: all
    percentage: int | None = None  # percentageOfNodesToScore; None: the shipped value
    profiled: bool = False  # whether the extender measures the steps of its work
    python: str = sys.executable  # the Python that runs the extender; of the same minor version as this one


def configuration(mode: Mode, kubeconfig: str, url: str) -> Json:
    """Return the shipped KubeSchedulerConfiguration for a mode, for one kube-scheduler without election."""
    result: Json = yaml.safe_load((SHIPPED / "kube-scheduler-configuration.yaml").read_text(encoding="utf-8"))
    result["leaderElection"] = {"leaderElect": False}
    result["clientConnection"]["kubeconfig"] = kubeconfig
    if mode.percentage is not None:
        result["percentageOfNodesToScore"] = mode.percentage
    (extender,) = result.pop("extenders")
    if mode.kind != NONE:
        scores = mode.kind == WEIGHTED or (mode.kind == NOTHING and not mode.names)
        score_fields = {"prioritizeVerb": "prioritize", "weight": 1} if scores else {}
        # A machine that is busy with other things must not look like an extender that is away.
        section = {"urlPrefix": url, "httpTimeout": "30s", "ignorable": False}
        result["extenders"] = [{**extender, **section, **score_fields}]
    return result


def scheduler_name() -> str:
    """Return the name of the scheduler that pods have to ask for."""
    return str(configuration(Mode(NONE), "", "")["profiles"][0]["schedulerName"])


def profile(mode: Mode) -> Json:
    """Return the shipped profile with every plugin that there is, for a mode; reports expire late."""
    result: Json = yaml.safe_load((SHIPPED / "profile.yaml").read_text(encoding="utf-8"))
    named = {part["name"] for part in result["plugins"]}
    result["plugins"] += [{"name": name, "weight": 1} for name in PLUGINS if name not in named]
    for part in result["plugins"]:
        kind = pkgutil.resolve_name(PLUGINS[part["name"]])
        ages = [
            json_name(field.name) for field in dataclasses.fields(kind) if field.name.endswith("expiration_seconds")
        ]
        part["args"] = {**(part.get("args") or {}), **dict.fromkeys(ages, LONG_SECONDS)}
    result["mode"] = mode.kind
    return result


@dataclass(frozen=True, slots=True)
class Program:
    """A running extender or kube-scheduler."""

    mode: Mode
    process: Process
    url: str

    def figures(self) -> dict[str, float]:
        """Return an extender's names per call, if it does nothing, or its milliseconds per request."""
        if self.mode.kind == NOTHING:
            counts = json.loads(get(f"{self.url}/counts"))
            verbs = [verb for verb in ("filter", "prioritize") if counts.get(f"{verb} calls")]
            return {f"{verb} names": counts[f"{verb} names"] / counts[f"{verb} calls"] for verb in verbs}
        text = get(f"{self.url}/metrics")
        verbs = ["filter", "prioritize"]
        means = {verb: mean_ms(text, "headroom_scheduler_request_seconds", f'verb="{verb}"') for verb in verbs}
        return {f"{verb} ms": mean for verb, mean in means.items() if mean is not None}

    def profile(self) -> dict[str, float]:
        """Return an extender's CPU time per pod by step, if it measures that. [ms]"""
        result: dict[str, float] = json.loads(get(f"{self.url}/profile")) if self.mode.profiled else {}
        return result

    def algorithm_ms(self) -> float | None:
        """Return the time of kube-scheduler's algorithm per pod by its own account; None: it has none. [ms]"""
        try:
            text = get(f"{self.url}/metrics")
        except OSError:
            return None
        return mean_ms(text, "scheduler_scheduling_algorithm_duration_seconds")


def start_extender(cluster: Cluster, mode: Mode) -> Program:
    """Start ours or the one that does nothing, and wait until it answers.

    Raises:
        DevClusterError: It ended, or did not get ready.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    if mode.kind == NOTHING:
        words = ["tools.bench.scheduler_noop", str(port), str(mode.names)]
    else:
        path = cluster.dir / "profile.yaml"
        path.write_text(yaml.safe_dump(profile(mode)), encoding="utf-8")
        listen = f"--listen=127.0.0.1:{port}"
        program = "tools.bench.scheduler_profile" if mode.profiled else "scheduler_plugins"
        words = [program, f"--kubeconfig={cluster.kubeconfig}", f"--profile={path}", listen]
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    process = cluster.supervisor.start("extender", [mode.python, "-m", *words], env=environment, cwd=ROOT)
    try:
        wait_until(lambda: get(f"{url}/healthz"), "the extender's start", START_SECONDS, [process], 0.2)
    except BaseException:
        process.stop()
        raise
    return Program(mode, process, url)


def start_kube_scheduler(cluster: Cluster, mode: Mode, url: str) -> Program:
    """Start kube-scheduler with an extender at `url`; it begins with the pods that wait at once."""
    plane, port = cluster.control_plane, free_port()
    path = cluster.dir / "scheduler.yaml"
    kubeconfig = str(plane.pki.directory / "scheduler.kubeconfig")
    path.write_text(yaml.safe_dump(configuration(mode, kubeconfig, url)), encoding="utf-8")
    serving = [f"--secure-port={port}", "--bind-address=127.0.0.1", "--authorization-always-allow-paths=/metrics"]
    command: list[str | Path] = [plane.binaries.path("kube-scheduler"), f"--config={path}", *serving]
    process = cluster.supervisor.start("scheduler", command, cwd=cluster.dir)
    return Program(mode, process, f"https://127.0.0.1:{port}")


def mean_ms(text: str, histogram: str, label: str = "") -> float | None:
    """Return the mean of a histogram in Prometheus' text format, over all its series that have the label. [ms]"""
    sums = {"_sum": 0.0, "_count": 0.0}
    for line in text.splitlines():
        key, _, value = line.rpartition(" ")
        name, _, labels = key.partition("{")
        for suffix in sums:
            if name == histogram + suffix and label in labels:
                sums[suffix] += float(value)
    return sums["_sum"] / sums["_count"] * 1000 if sums["_count"] else None


def get(url: str) -> str:
    """Return the text of a page.

    Raises:
        OSError: There is none, or it has another status than 200.
    """
    # Both serve on loopback and are ours; kube-scheduler makes its own certificate.
    unchecked = ssl._create_unverified_context() if url.startswith("https") else None  # noqa: S323, SLF001
    with urllib.request.urlopen(url, timeout=10, context=unchecked) as answer:  # noqa: S310 - http or https
        return str(answer.read().decode())
