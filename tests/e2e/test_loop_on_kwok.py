"""The whole loop on kwok nodes whose load is replayed, without root: the demo's steps, and Grafana's view of them."""

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Telling
from tests.e2e.panels import must_show, queries
from tests.e2e.scraping import scraping, until
from tools.demo.steps import STEPS, Step
from tools.demo.story import Story
from tools.devcluster.packages import Prometheus as Programs

pytestmark = [pytest.mark.long, pytest.mark.cluster, pytest.mark.timeout(600)]

QUOTED = "quoted"  # a namespace with a quota, and a pod that is charged to it


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.run.__name__)
def test_demo_step_holds(step: Step, on_kwok: Telling) -> None:
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


def test_dashboards_show_the_cluster(on_kwok: Telling, prometheus_programs: Programs, tmp_path: Path) -> None:
    """Every panel of every dashboard has something to show, or is excused by name; rules work, and none alarms."""
    story = on_kwok.whole()
    asked = dict.fromkeys(queries(story.node))
    with scraping(story, prometheus_programs, tmp_path) as prometheus:
        _put_quota(story)  # now, so that the extender is seen at work
        waiting = {each for each in asked if must_show(each[1])}

        def all_answer() -> bool:
            waiting.difference_update([each for each in waiting if prometheus.ask(each[1])])
            return not waiting

        until(all_answer, lambda: "\n".join(f"{title} is empty: {query}" for title, query in sorted(waiting)))
        for _, query in asked:  # those that may be empty must be answered, too
            prometheus.ask(query)
        used = f'headroom_scheduler_quota_used{{quota_namespace="{QUOTED}", resource="cpu"}} == 0.1'
        until(lambda: prometheus.ask(used), lambda: "the quota's namespace is not charged what its pod requests")
        rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        assert {rule["name"]: rule["lastError"] for rule in rules if rule["health"] == "err"} == {}
        assert sum(rule["type"] == "alerting" for rule in rules) > 30
        assert [each["labels"] for each in prometheus.get("alerts")["alerts"] if each["state"] == "firing"] == []
