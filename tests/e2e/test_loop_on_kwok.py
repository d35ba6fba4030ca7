"""The whole loop on kwok nodes whose load is replayed, without root: the demo's steps, and Grafana's view of them."""

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
import yaml

from tests.e2e.conftest import StoryRunner
from tests.e2e.panels import must_show, queries
from tools.demo.steps import STEPS, Step
from tools.demo.story import CHART, Story
from tools.devcluster.component import free_port
from tools.devcluster.packages import Prometheus as Programs

SERVICES: Final = ("agent", "manager", "scheduler_plugins")  # the modules that run as services
WAIT_SECONDS: Final = 120.0
_SCRAPE: Final = "1s"


@dataclass(frozen=True)
class Prometheus:
    url: str

    def get(self, path: str, **parameters: str) -> Any:  # noqa: ANN401 - JSON
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - one that the test runs
            return json.load(answer)["data"]

    def ask(self, query: str) -> list[Any]:
        """The series that answer an instant query with a number."""
        return [entry for entry in self.get("query", query=query)["result"] if entry["value"][1] != "NaN"]


def until(condition: Callable[[], Any], what: Callable[[], str]) -> None:
    """Wait for a condition; a Prometheus that does not answer yet counts as not yet."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            if condition():
                return
        except OSError:
            pass
        assert time.monotonic() < deadline, what()
        time.sleep(0.5)


def targets(story: Story) -> list[dict[str, Any]]:
    """Scrape targets, as in Prometheus' configuration: each service at its process' open port."""
    result = []
    for process in psutil.Process(story.cluster.supervisor.pid).children(recursive=True):
        words = process.cmdline()
        module = next((name for name in SERVICES if ["-m", name] == words[1:3]), None)
        if module is None:
            continue
        names = [word.partition("=")[2] for word in words if word.startswith("--node-name=")]
        ports = [
            connection.laddr.port
            for connection in process.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        ]
        labels = {"pod": f"{module}-{process.pid}", **({"node": names[0]} if names else {})}
        result += [{"targets": [f"127.0.0.1:{port}"], "labels": labels} for port in ports]
    return result


@contextmanager
def scraping(story: Story, programs: Programs, folder: Path) -> Iterator[Prometheus]:
    """Run it until the block ends; it answers, and has scraped every service."""
    port, scraped = free_port(), targets(story)
    job = {"job_name": "headroom", "honor_labels": True, "static_configs": scraped}
    configuration = {
        "global": {"scrape_interval": _SCRAPE, "evaluation_interval": _SCRAPE},
        "rule_files": [str(path) for path in sorted((CHART / "files").glob("prometheus-*.yaml"))],
        "scrape_configs": [job],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
    flags = [
        f"--config.file={folder}/prometheus.yaml",
        f"--storage.tsdb.path={folder}/tsdb",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    log = folder / "log"
    with log.open("wb") as output, subprocess.Popen([programs.server, *flags], stdout=output, stderr=output) as server:
        try:
            made = Prometheus(f"http://127.0.0.1:{port}")
            until(
                lambda: len(made.ask("up == 1")) == len(scraped),
                lambda: f"not all of {scraped} are scraped: {log.read_text()[-2000:]}",
            )
            yield made
        finally:
            server.terminate()
            server.wait(30)


pytestmark = [pytest.mark.long, pytest.mark.cluster, pytest.mark.timeout(600)]

QUOTED = "quoted"  # a namespace with a quota, and a pod that is charged to it


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.run.__name__)
def test_demo_step_holds(step: Step, on_kwok: StoryRunner) -> None:
    on_kwok.up_to(step)


def _put_quota(story: Story) -> None:
    cluster = story.cluster
    cluster.create_namespace(QUOTED)
    bounds = {"min": {"cpu": "500m", "memory": "1Gi"}, "max": {"cpu": "1", "memory": "2Gi"}}
    quota = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "share", "namespace": QUOTED},
        "spec": bounds,
    }
    requests = {"cpu": "100m", "memory": "64Mi"}
    container = {"name": "c", "image": "none", "resources": {"requests": requests}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "charged", "namespace": QUOTED},
        "spec": {"schedulerName": "headroom-scheduler", "containers": [container]},
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [quota, pod]}))


def test_dashboards_show_the_cluster(on_kwok: StoryRunner, prometheus_programs: Programs, tmp_path: Path) -> None:
    """Every panel of every dashboard has something to show, or is excused by name; rules work, and none alarms."""
    story = on_kwok.whole()
    panel_queries = dict.fromkeys(queries(story.node))
    with scraping(story, prometheus_programs, tmp_path) as prometheus:
        _put_quota(story)  # now, so that the extender is seen at work
        waiting = {entry for entry in panel_queries if must_show(entry[1])}

        def all_answer() -> bool:
            waiting.difference_update([pod for pod in waiting if prometheus.ask(pod[1])])
            return not waiting

        until(all_answer, lambda: "\n".join(f"{title} is empty: {query}" for title, query in sorted(waiting)))
        for _, query in panel_queries:  # those that may be empty must be answered, too
            prometheus.ask(query)
        used = f'headroom_scheduler_quota_used{{quota_namespace="{QUOTED}", resource="cpu"}} == 0.1'
        until(lambda: prometheus.ask(used), lambda: "the quota's namespace is not charged what its pod requests")
        rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        assert {rule["name"]: rule["lastError"] for rule in rules if rule["health"] == "err"} == {}
        assert sum(rule["type"] == "alerting" for rule in rules) > 30
        assert [alert["labels"] for alert in prometheus.get("alerts")["alerts"] if alert["state"] == "firing"] == []
