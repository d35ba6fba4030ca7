"""Every dashboard is what its source makes, queries what is there, and can be read."""

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.e2e.panels import NOTHING_TO_SHOW, must_show, queries
from tests.monitoring.exported import exported, missing
from tools.dashboards import DASHBOARDS, FOLDER, files
from tools.dashboards.model import Dashboard, Kind, Panel, Query, Row
from tools.devcluster.prometheus import Prometheus

ALL: Final = {name: make() for name, make in DASHBOARDS.items()}
QUERIES: Final = [
    (f"{name}: {panel.title}", query.expression)
    for name, each in ALL.items()
    for panel in each.panels
    for query in panel.queries
]


def _panels(dashboard: Dashboard) -> list[dict[str, Any]]:
    """All panels as Grafana reads them."""
    return [panel for panel in dashboard.to_json()["panels"] if panel["type"] != "row"]


def test_files_are_made_from_the_source() -> None:
    """The chart's files are what `make dashboards` writes, and there are no others."""
    found = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert found == files(), "run `make dashboards`"


def test_queries_ask_for_what_is_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every metric and label of every query, and of what the reader may choose, is exported by a service."""
    known = exported(monkeypatch)
    wrong = [f"{where}: {each}" for where, query in QUERIES for each in missing(query, known)]
    for name, dashboard in ALL.items():
        for variable in dashboard.variables:
            metric, label = variable.query.removeprefix("label_values(").removesuffix(")").split(", ")
            wrong += [f"{name}: ${variable.name}: {each}" for each in missing(f'{metric}{{{label}=""}}', known)]
        (annotation,) = dashboard.to_json()["annotations"]["list"]
        wrong += [f"{name}: {each}" for each in missing(annotation["expr"], known)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.alone
def test_queries_can_be_parsed(prometheus_programs: Prometheus, tmp_path: Path) -> None:
    """Prometheus' own parser takes every query."""
    path = tmp_path / "rules.yaml"
    rules = [
        {"record": f"query:{number}", "expr": _plain(query), "labels": {"where": where}}
        for number, (where, query) in enumerate(QUERIES)
    ]
    path.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    done = subprocess.run(
        [prometheus_programs.tool, "check", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(QUERIES)} rules found" in done.stdout


def _plain(query: str) -> str:
    """A query with a time where Grafana puts one."""
    return query.replace("$__rate_interval", "5m")


def test_excuses_are_of_queries() -> None:
    """The end-to-end test of all panels excuses none that is not there any more, and most are not excused."""
    used = [query for _, query in queries("n")]
    assert [part for part in NOTHING_TO_SHOW if not any(part in query for query in used)] == []
    assert sum(map(must_show, used)) > 0.7 * len(used)


@pytest.mark.parametrize("name", ALL)
def test_panels_have_places(name: str) -> None:
    """Panels lie within 24 columns, do not overlap, and have numbers of their own."""
    panels = ALL[name].to_json()["panels"]
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
    titles = Counter(panel.title for panel in dashboard.panels)
    assert max(titles.values()) == 1
    for panel in dashboard.panels:
        assert panel.what.endswith("."), panel.title
        assert all(query.legend for query in panel.queries) or panel.kind is Kind.STAT, panel.title


@pytest.mark.parametrize("name", ALL)
def test_data_source_is_chosen(name: str) -> None:
    """No dashboard is tied to one Prometheus: its reader chooses, and every query goes to the one that is chosen."""
    made = ALL[name].to_json()
    assert made["templating"]["list"][0]["type"] == "datasource"
    used = [panel["datasource"]["uid"] for panel in _panels(ALL[name])]
    used += [target["datasource"]["uid"] for panel in _panels(ALL[name]) for target in panel["targets"]]
    assert set(used) == {"${datasource}"}


def test_dashboards_find_each_other() -> None:
    """The five have addresses and titles of their own, and a tag by which the links between them are made."""
    made = [dashboard.to_json() for dashboard in ALL.values()]
    assert len({each["uid"] for each in made}) == len({each["title"] for each in made}) == 5
    assert all(each["tags"] == each["links"][0]["tags"] for each in made)
    assert all(len(each["uid"]) <= 40 for each in made)  # Grafana takes no longer ones


def test_links_of_nodes_lead_to_the_node() -> None:
    """A node's name in a table opens the dashboard of that node."""
    linked = [
        link["url"]
        for dashboard in ALL.values()
        for panel in _panels(dashboard)
        for override in panel["fieldConfig"]["overrides"]
        for part in override["properties"]
        if part["id"] == "links"
        for link in part["value"]
    ]
    assert set(linked) == {f"/d/{ALL['node'].uid}?var-node=${{__value.text}}"}
    assert ALL["node"].variables[0].name == "node"


def test_panels_wrap_at_the_edge() -> None:
    """A panel that does not fit beside the others begins a line below the tallest of them."""
    panels = [Panel(str(width), ".", [Query("a")], width=width, height=height) for width, height in ((16, 3), (8, 5))]
    dashboard = Dashboard("u", "t", ".", [Row("r", [*panels, Panel("3", ".", [Query("a")], width=1)])])
    places = [panel["gridPos"] for panel in _panels(dashboard)]
    assert [(place["x"], place["y"]) for place in places] == [(0, 1), (16, 1), (0, 6)]


def test_columns_have_their_names() -> None:
    """A table has a column for each query, under its title and in its unit; one query alone has no letter."""
    queries = [Query("a", "used", "bytes"), Query("b", "left")]
    for count, titles in ((2, {"Value #A": "used", "Value #B": "left"}), (1, {"Value": "used"})):
        panel = Panel("t", ".", queries[:count], kind=Kind.TABLE)
        (made,) = _panels(Dashboard("u", "t", ".", [Row("r", [panel])]))
        assert made["transformations"][1]["options"]["renameByName"] == titles
        units = {each["matcher"]["options"]: each["properties"] for each in made["fieldConfig"]["overrides"]}
        assert units == {"used": [{"id": "unit", "value": "bytes"}]}


def test_text_is_json() -> None:
    """A file is JSON with the content of the source."""
    assert json.loads(ALL["cluster"].text()) == ALL["cluster"].to_json()
