"""Every dashboard queries exported metrics, and can be read."""

import subprocess
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.e2e.panels import NOTHING_TO_SHOW, must_show, queries
from tests.monitoring import dashboards
from tests.monitoring.dashboards import DASHBOARDS as ALL
from tests.monitoring.dashboards import panels
from tests.monitoring.exported import exported, missing
from tools.devcluster.packages import Prometheus

QUERIES: Final = [
    (f"{name}: {panel['title']}", target["expr"])
    for name, each in ALL.items()
    for panel, target in dashboards.queries(each)
]


def test_queries_use_exported_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every metric and label of every query, and of every variable, is exported by a service."""
    metrics = exported(monkeypatch)
    wrong = [f"{where}: {gap}" for where, query in QUERIES for gap in missing(query, metrics)]
    for name, dashboard in ALL.items():
        for variable in dashboard["templating"]["list"][1:]:
            query = variable["query"] if isinstance(variable["query"], str) else variable["query"]["query"]
            metric, label = query.removeprefix("label_values(").removesuffix(")").split(", ")
            wrong += [f"{name}: ${variable['name']}: {item}" for item in missing(f'{metric}{{{label}=""}}', metrics)]
        (annotation,) = dashboard["annotations"]["list"]
        wrong += [f"{name}: {entry}" for entry in missing(annotation["expr"], metrics)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.alone
def test_queries_can_be_parsed(prometheus_programs: Prometheus, tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    rules = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "5m"), "labels": {"where": where}}
        for number, (where, query) in enumerate(QUERIES)
    ]
    path.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    done = subprocess.run(
        [prometheus_programs.tool, "check", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(QUERIES)} rules found" in done.stdout


def test_excuses_are_of_queries() -> None:
    """The end-to-end test of all panels excuses only existing panels, and most are not excused."""
    used = [query for _, query in queries("n")]
    assert [part for part in NOTHING_TO_SHOW if not any(part in query for query in used)] == []
    assert sum(map(must_show, used)) > 0.7 * len(used)


@pytest.mark.parametrize("name", ALL)
def test_panels_have_places(name: str) -> None:
    """Panels lie within 24 columns, do not overlap, and have numbers of their own."""
    panels = ALL[name]["panels"]
    numbers = Counter(panel["id"] for panel in panels)
    taken = Counter(
        (place["x"] + column, place["y"] + line)
        for place in (panel["gridPos"] for panel in panels)
        for column in range(place["w"])
        for line in range(place["h"])
    )
    assert max(numbers.values()) == 1
    assert max(taken.values()) == 1
    assert max(column for column, _ in taken) < 24


@pytest.mark.parametrize("name", ALL)
def test_panels_explain_themselves(name: str) -> None:
    """Every panel has a title of its own and a sentence that explains it; every line and column has a name."""
    dashboard = ALL[name]
    titles = Counter(panel["title"] for panel in panels(dashboard))
    assert max(titles.values()) == 1
    for panel in panels(dashboard):
        assert panel["description"].endswith("."), panel["title"]
    for panel, target in dashboards.queries(dashboard):
        assert panel["type"] in ("stat", "table") or target["legendFormat"], panel["title"]


@pytest.mark.parametrize("name", ALL)
def test_data_source_is_chosen(name: str) -> None:
    """No dashboard is tied to one Prometheus: its reader chooses, and every query goes to the one that is chosen."""
    made = ALL[name]
    assert made["templating"]["list"][0]["type"] == "datasource"
    used = [panel["datasource"]["uid"] for panel in panels(ALL[name])]
    used += [target["datasource"]["uid"] for panel in panels(ALL[name]) for target in panel["targets"]]
    assert set(used) == {"${datasource}"}


def test_dashboards_find_each_other() -> None:
    """The five have addresses and titles of their own, and a tag by which the links between them are made."""
    made = ALL.values()
    assert len({item["uid"] for item in made}) == len({element["title"] for element in made}) == 5
    assert all(made_object["tags"] == made_object["links"][0]["tags"] for made_object in made)
    assert all(len(entry["uid"]) <= 40 for entry in made)  # Grafana takes no longer ones


def test_links_of_nodes_lead_to_the_node() -> None:
    """A node's name in a table opens the dashboard of that node."""
    linked = [
        link["url"]
        for dashboard in ALL.values()
        for panel in panels(dashboard)
        for override in panel["fieldConfig"]["overrides"]
        for part in override["properties"]
        if part["id"] == "links"
        for link in part["value"]
    ]
    assert set(linked) == {f"/d/{ALL['node']['uid']}?var-node=${{__value.text}}"}
    assert ALL["node"]["templating"]["list"][1]["name"] == "node"
