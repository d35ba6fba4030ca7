"""A real Prometheus with two days of a cluster, queried over TLS with a login."""

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import yaml

from agent.numerics.arrays import FloatArray
from kubectl_headroom.backtest.sources import Options, SourceUnavailableError
from kubectl_headroom.backtest.sources.prometheus_api import AnswerTooLarge, Api
from kubectl_headroom.backtest.trace import TraceError
from tests.kubectl_headroom.backtest.trace_files import trace
from tools.devcluster.certs import Pki
from tools.devcluster.component import free_port
from tools.devcluster.packages import Prometheus as Programs

pytestmark = pytest.mark.alone

STEP, SCRAPE, STEPS = 300, 60, 300
MIB = 1 << 20
WAIT_SECONDS = 120.0
EXPENSIVE = "sum by (namespace, pod) (rate(container_cpu_usage_seconds_total[1d:10s]))"
"""A query that needs 8,640 samples of each series for a single point."""
# Of `headroom` with the password `s3cret`, by bcrypt at its lowest cost.
HASH = "$2b$04$zS/HJghAOjc4m152t4sNkeV.xwlvfdMME7GvKUiaNeTS8eELHOBiG"
PODS = {
    "web": ("n1", "2", "ReplicaSet", "web-5d4f8c7b9", "", (0, STEPS)),
    "db": ("n2", "4", "StatefulSet", "db", "", (0, STEPS)),
    "late": ("n1", "1", "ReplicaSet", "late-6c8b7d9f4", "", (200, STEPS)),
    "low": ("n2", "1", "Job", "low", "koord-batch", (0, STEPS)),
}
"""Node, CPU request, owner, priority class, and steps of each pod."""


@dataclass
class Site:
    """The server, and its data."""

    url: str
    authority: Path
    password: Path
    start: float
    usage: dict[str, FloatArray]

    def options(self, **more: object) -> Options:
        config = {
            "resources": ("cpu",),
            "ca_file": str(self.authority),
            "user": "headroom",
            "password_file": str(self.password),
            "since": self.start,
            "until": self.start + STEP * STEPS,
        }
        return Options(**{**config, **more})  # type: ignore[arg-type]


def _metrics(start: float, usage: dict[str, FloatArray]) -> Iterator[str]:
    """The scrapes of two days, in OpenMetrics."""
    times = start + SCRAPE * np.arange(STEPS * STEP // SCRAPE + 1)
    step = np.minimum((times - start) // STEP, STEPS - 1).astype(int)
    for metric, kind in (("container_cpu_usage_seconds", "counter"), ("container_memory_working_set_bytes", "gauge")):
        yield f"# TYPE {metric} {kind}"
        for name, (_, _, _, _, _, (first, last)) in PODS.items():
            # Usage between two scrapes belongs to the step in which the later one ends.
            rate = usage[name][np.minimum((times[1:] - start - 1) // STEP, STEPS - 1).astype(int)]
            counter = np.concatenate([[0.0], np.cumsum(rate * SCRAPE)])
            values = counter if kind == "counter" else np.full(len(times), 64.0 * MIB)
            ending = "_total" if kind == "counter" else ""
            for container, share in (("main", 0.75), ("sidecar", 0.25), ("", 1.0)):
                labels = f'namespace="shop",pod="{name}",container="{container}"'
                there = (step >= first) & (step < last)
                for when, value in zip(times[there].tolist(), values[there].tolist(), strict=True):
                    yield f"{metric}{ending}{{{labels}}} {value * share:.6f} {when:.0f}"
    for metric in ("kube_pod_container_resource_requests", "kube_pod_info"):
        yield f"# TYPE {metric} gauge"
        for name, (node, cpu, kind, owner, band, (first, last)) in PODS.items():
            labels = f'namespace="shop",pod="{name}"'
            if metric == "kube_pod_info":
                labels += f',node="{node}",created_by_kind="{kind}",created_by_name="{owner}",priority_class="{band}"'
            else:
                labels += f',container="main",resource="cpu",node="{node}"'
            for when in times[(step >= first) & (step < last)].tolist():
                yield f"{metric}{{{labels}}} {cpu if metric != 'kube_pod_info' else 1} {when:.0f}"
    yield "# EOF"


@pytest.fixture(scope="module")
def site(prometheus_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Prometheus with a past: blocks made from what two days of scrapes would have brought."""
    folder = tmp_path_factory.mktemp("prometheus")
    start = (time.time() // STEP - STEPS - 12) * STEP
    random = np.random.default_rng(5)
    usage = {name: random.random(STEPS) for name in PODS}
    (folder / "metrics").write_text("\n".join(_metrics(start, usage)) + "\n")
    make: list[str | Path] = ["tsdb", "create-blocks-from", "openmetrics", folder / "metrics", folder / "data"]
    subprocess.run([prometheus_programs.tool, *make], check=True, capture_output=True)
    pki, port = Pki(folder / "pki"), free_port()
    pair = pki.server("prometheus", ["127.0.0.1"])
    web = {
        "tls_server_config": {"cert_file": str(pair.cert), "key_file": str(pair.key)},
        "basic_auth_users": {"headroom": HASH},
    }
    (folder / "web.yaml").write_text(yaml.safe_dump(web))
    (folder / "prometheus.yaml").write_text("{}\n")
    (folder / "password").write_text("s3cret\n")
    flags = [
        f"--config.file={folder}/prometheus.yaml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        f"--web.config.file={folder}/web.yaml",
        "--query.max-samples=1500",
    ]
    log = (folder / "log").open("wb")
    with log, subprocess.Popen([prometheus_programs.server, *flags], stdout=log, stderr=log) as server:
        try:
            made = Site(f"https://127.0.0.1:{port}", pki.ca, folder / "password", start, usage)
            _wait(made, folder / "log")
            yield made
        finally:
            server.terminate()


def _wait(site: Site, log: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            trace("prometheus", site.url, options=site.options(since=site.start + (STEPS - 12) * STEP))
        except SourceUnavailableError:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        else:
            return


def test_cluster_comes_back(site: Site) -> None:
    """Usage is read back unchanged, pod by pod, on the pod's node, for the pod's lifetime."""
    result = trace("prometheus", site.url, options=site.options())
    assert result.machines == ("n1", "n2")
    assert dict(zip(result.names, result.limits.tolist(), strict=True)) == {"shop/late": 1, "shop/web": 2, "shop/db": 4}
    assert set(result.workloads or ()) == {"shop/ReplicaSet/late", "shop/ReplicaSet/web", "shop/StatefulSet/db"}
    assert result.notes[0] == "1 of 4 pods left out, not Prod: shop/low."
    assert (result.times[0], result.steps) == (site.start, STEPS)
    for place, name in enumerate(result.names):
        pod = name.removeprefix("shop/")
        first, last = PODS[pod][-1]
        (lifetime,) = (lifetime for lifetime in result.lifetimes or () if lifetime.series == place)
        assert (lifetime.end, lifetime.start - first) in {(last, 0), (last, 1)}  # the first scrape alone is no rate
        np.testing.assert_allclose(
            result.usage[first + 1 : last - 1, place], site.usage[pod][first + 1 : last - 1], atol=1e-4
        )


def test_server_limits_are_met(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server loads 1,500 samples for a response, and a day has more: the query is split."""
    cut: list[str] = []
    middle = Api._middle

    def counted(self: Api, query: str, start: float, end: float, error: AnswerTooLarge) -> float:
        cut.append(str(error))
        return middle(self, query, start, end, error)

    monkeypatch.setattr(Api, "_middle", counted)
    assert trace("prometheus", site.url, options=site.options()).steps == STEPS
    assert any("too many samples" in why for why in cut)
    with pytest.raises(TraceError, match=r"too much for it even hour by hour .*too many samples"):
        trace("prometheus", site.url, options=site.options(queries={"cpu": EXPENSIVE}))


def test_its_refusals_are_reported(site: Site) -> None:
    """Its certificate, its login and its error for a wrong query reach the user."""
    with pytest.raises(SourceUnavailableError, match=r"its certificate is refused .*give its authority with --ca-file"):
        trace("prometheus", site.url, options=site.options(ca_file=""))
    with pytest.raises(TraceError, match=r"refuses the login \(401\)"):
        trace("prometheus", site.url, options=site.options(user="", password_file=""))
    with pytest.raises(TraceError, match=r"does not understand query 'rate\(': .*parse error"):
        trace("prometheus", site.url, options=site.options(queries={"cpu": "rate("}))
    assert trace("prometheus", site.url, options=site.options(ca_file="", insecure=True)).steps == STEPS
