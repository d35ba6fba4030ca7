"""A real Prometheus that scrapes a real agent, records with the chart's rules, and is queried over TLS."""

import asyncio
import json
import os
import signal
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from ssl import create_default_context
from typing import Any

import pytest
import yaml

from scheduler_plugins.providers.prometheus import make
from scheduler_plugins.providers.provider import Answer, ProviderError
from scheduler_plugins.providers.spec import MetricProvider, ProviderSpec
from tests.agent import process as agent
from tests.agent.metric_text import value_of
from tests.scheduler_plugins.providers.test_web import NOWHERE
from tools.devcluster.certs import Pki
from tools.devcluster.component import free_port
from tools.devcluster.packages import Prometheus as Programs

pytestmark = pytest.mark.alone

RULES = sorted((Path(__file__).parents[2] / "charts/headroom/files").glob("prometheus-rules*.yaml"))
NODE = "worker-1"
OURS: dict[str, Any] = {
    "cpu_metric": "headroom:node_cpu:ratio",
    "memory_metric": "headroom:node_memory:ratio",
    "node_label": "node",
}
WAIT_SECONDS = 120.0


@dataclass
class Site:
    url: str
    authority: Path
    agent: agent.Running
    agent_url: str

    def ask(self, query: str) -> list[Any]:
        url = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        with urllib.request.urlopen(url, timeout=60, context=create_default_context(cafile=self.authority)) as answer:  # noqa: S310
            return list(json.load(answer)["data"]["result"])

    def provider(self, **settings: Any) -> Answer:  # noqa: ANN401
        made = MetricProvider(
            "Prometheus", self.url, window_duration=20.0, **{"ca_file": str(self.authority)} | settings
        )
        return asyncio.run(make(ProviderSpec(made), NOWHERE).fetch(time.time()))


def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            if condition():
                return
        except (OSError, ProviderError, KeyError):
            pass
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@pytest.fixture(scope="module")
def site(prometheus_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("prometheus")
    pki, port = Pki(folder / "pki"), free_port()
    pair = pki.server("prometheus", ["127.0.0.1"])
    tls = {"tls_server_config": {"cert_file": str(pair.cert), "key_file": str(pair.key)}}
    (folder / "web.yaml").write_text(yaml.safe_dump(tls))
    with agent.running(*agent.QUICK, "--standalone", f"--node-name={NODE}", f"--data-dir={folder}/data") as running:
        address = running.address()
        target = {"job_name": "agent", "static_configs": [{"targets": [address.removeprefix("http://")]}]}
        (folder / "prometheus.yaml").write_text(
            yaml.safe_dump(
                {
                    "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                    "rule_files": [str(path) for path in RULES],
                    "scrape_configs": [target],
                }
            )
        )
        flags = [
            f"--config.file={folder}/prometheus.yaml",
            f"--storage.tsdb.path={folder}/tsdb",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--web.config.file={folder}/web.yaml",
        ]
        log = (folder / "log").open("wb")
        with log, subprocess.Popen([prometheus_programs.server, *flags], stdout=log, stderr=log) as server:
            try:
                made = Site(f"https://127.0.0.1:{port}", pki.ca, running, address)
                until(lambda: len(made.ask(OURS["cpu_metric"])) == 1, f"recording, see {folder}/log")
                until(
                    lambda: len(made.ask("instance:node_memory_utilisation:ratio")) == 1, "recording for load-watcher"
                )
                yield made
            finally:
                server.terminate()


def test_rules_are_sound(prometheus_programs: Programs) -> None:
    assert len(RULES) == 2
    done = subprocess.run(
        [prometheus_programs.tool, "check", "rules", *RULES], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("2 rules found") == 2


@pytest.mark.parametrize("names", [OURS, {}], ids=["ours", "load-watcher's"])
def test_provider_reads_the_rules(site: Site, names: dict[str, Any]) -> None:
    until(lambda: NODE in site.provider(**names).nodes, "a reading")
    result = site.provider(**names).nodes[NODE]
    said = agent.get(f"{site.agent_url}/metrics")[1]
    used = value_of(said, f'headroom_agent_node_used_cpu_cores{{node="{NODE}"}}')
    whole = f'headroom_agent_node_resource_allocatable{{node="{NODE}",resource="cpu",unit="core"}}'
    cpu = used / value_of(said, whole)
    metrics = {(metric["type"], metric["operator"]): metric["value"] for metric in result.metrics}
    assert set(metrics) == {("CPU", "AVG"), ("CPU", "STD"), ("Memory", "AVG"), ("Memory", "STD")}
    assert metrics["CPU", "AVG"] == pytest.approx(100 * cpu)
    assert metrics["CPU", "STD"] == pytest.approx(0, abs=1e-6)  # one report, so one value
    assert 0 < metrics["Memory", "AVG"] < 100


def test_expressions_are_queried(site: Site) -> None:
    cpu = 'headroom_agent_node_used_cpu_cores / on (node) headroom_agent_node_resource_allocatable{resource="cpu"}'
    names = {"cpu_metric": cpu, "node_label": "node", "node_pattern": "worker-(.*)"}
    until(lambda: "1" in site.provider(**names).nodes, "a reading")
    assert site.provider(**names).nodes["1"].measured_at == pytest.approx(time.time(), abs=30)


def test_invalid_query_is_reported(site: Site) -> None:
    with pytest.raises(ProviderError, match=r"answers 400: .*parse error"):
        site.provider(cpu_metric="rate(")


def test_age_grows_without_agent(site: Site) -> None:
    os.kill(site.agent.process.pid, signal.SIGKILL)
    until(lambda: not site.ask(OURS["cpu_metric"]), "the series ending")
    first = site.provider(**OURS).nodes[NODE].measured_at
    until(lambda: time.time() - first > 3, "time passing")
    assert site.provider(**OURS).nodes[NODE].measured_at <= first
