"""The page in a real browser: the manager as a process with the chart's rights, against a real API server."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from crds.names import MID_CPU, MID_MEMORY
from tests.agent.process import get
from tests.manager.stage import METRICS, Manager, Stage, prepared
from tests.manager.web.browser import Tab, tab_of
from tests.manager.web.made_cluster import metric, prediction_ready
from tests.support.waiting import eventually
from tools.devcluster import Cluster
from tools.devcluster.component import free_port

pytestmark = pytest.mark.cluster

NAMESPACE = "ui-test"


@dataclass
class Page:
    stage: Stage
    manager: Manager
    port: int

    def url(self, path: str = "") -> str:
        return f"http://localhost:{self.port}/ui{path}"

    def data(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        status, text = get(f"http://localhost:{self.port}/ui/api/{path}")
        return json.loads(text) if status == 200 else None

    def report(self, name: str, **more: Any) -> None:  # noqa: ANN401 - arguments of `metric`
        status = metric(name, now=time.time(), **more)["status"]
        status["conditions"] = [prediction_ready(ready=more.get("ready", True))]
        self.stage.cluster.api.merge(f"{METRICS}/{name}/status", {"status": status})


@pytest.fixture(scope="module")
def page(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A manager with its page, a node that publishes, one that learns, and one without a report."""
    home, port = tmp_path_factory.mktemp("ui"), free_port()
    with prepared(cluster, NAMESPACE) as stage:
        ours = stage.config["nodeConfigs"][0]
        stage.configure({"nodeConfigs": [{**ours, "degradeTimeMinutes": 15}]})
        manager = Manager(
            stage.login(home / "kubeconfig"), home / "manager.log", NAMESPACE, f"--ui-listen=127.0.0.1:{port}"
        )
        manager.start()
        page = Page(stage, manager, port)
        try:
            for name in ("ui-publishes", "ui-learns", "ui-silent"):
                stage.add_node(name)
            page.report("ui-publishes")
            page.report("ui-learns", ready=False, cold_names=("shop/young-0", "shop/young-1"))
            stage.expect_cpu("ui-publishes", "4k")
            yield page
        finally:
            code = manager.stop()
        assert code == 0, manager.log_text()
        assert "Traceback" not in manager.log_text()
        assert "please report it" not in manager.log_text()


def _shown(page: Page, name: str, state: str) -> bool:
    return bool((result := page.data(f"nodes/{name}")) and result["state"] == state)


async def _figure(tab: Tab, resource: str) -> dict[str, Any]:
    text = await tab.evaluate(f"document.querySelector('figure[data-resource={resource}]').dataset.values")
    result: dict[str, Any] = json.loads(text)
    return result


async def test_the_page_shows_the_cluster(page: Page, browser: int) -> None:
    eventually(lambda: _shown(page, "ui-publishes", "publishing"), "the page shows that ui-publishes publishes")
    eventually(
        lambda: _shown(page, "ui-learns", "publishing") or _shown(page, "ui-learns", "learning"), "ui-learns is seen"
    )
    eventually(lambda: _shown(page, "ui-silent", "no report"), "the page shows that ui-silent is silent")
    async with tab_of(browser) as tab:
        await tab.open(page.url("?q=ui-"))
        await tab.until("document.querySelectorAll('table.list tbody tr').length === 3")
        assert await tab.evaluate("document.title") == "Cluster – Headroom"  # noqa: RUF001 - a dash
        rows = await tab.evaluate("[...document.querySelectorAll('table.list tbody tr')].map((row) => row.innerText)")
        assert len(rows) == 3
        assert any("ui-silent" in row and "no report" in row for row in rows)
        await tab.open(page.url("/nodes/ui-publishes"))
        await tab.until("document.querySelectorAll('figure.plot').length === 2")
        cpu, memory = await _figure(tab, "cpu"), await _figure(tab, "memory")
        metric_now = page.stage.cluster.api.get(f"{METRICS}/ui-publishes")["status"]
        assert metric_now["prodPeakMetric"]["resource"]["resources"]["cpu"] == "5000m"
        assert (cpu["prodPeak"][-1], cpu["usage"][-1], cpu["prodUsage"][-1]) == (5.0, 6.0, 4.0)
        assert cpu["mid"][-1] * 1000 == 4000
        assert page.stage.published("ui-publishes") == {MID_CPU: "4k", MID_MEMORY: str(10 * 2**30)}
        assert (memory["mid"][-1], memory["usage"][-1]) == (10.0, 24.0)
        assert await tab.evaluate("document.querySelector('path.line.prodPeak').getTotalLength() >= 0")
        await tab.narrow(400)
        narrow = await tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert narrow, "the page scrolls sideways on a narrow screen"
        assert tab.problems == []


async def test_the_page_explains(page: Page, browser: int) -> None:
    eventually(lambda: bool(page.data("nodes/ui-learns/explain")), "ui-learns is explained")
    async with tab_of(browser) as tab:
        await tab.open(page.url("/nodes/ui-learns"))
        await tab.until("!!document.querySelector('.findings')")
        text = await tab.evaluate("document.querySelector('main').textContent")
        said = page.data("nodes/ui-learns/explain")
        assert all(note in text for note in said["notes"])
        assert tab.problems == []


async def test_the_script_helps(page: Page, browser: int) -> None:
    """The keyboard moves along a plot; fresh numbers appear without a click, and open parts stay open."""
    async with tab_of(browser) as tab:
        await tab.open(page.url("/nodes/ui-publishes"))
        await tab.until("document.querySelectorAll('figure.plot').length === 2")
        legend = "document.querySelector('figure[data-resource=cpu] .legend b[data-style=prodPeak]').textContent"
        assert await tab.evaluate(legend) == "5000m"
        await tab.evaluate("document.querySelector('figure[data-resource=cpu] svg[role=img]').focus()")
        await tab.press("Home")
        assert await tab.evaluate(legend) == "-"  # two hours ago this node was unknown
        await tab.press("End")
        assert await tab.evaluate(legend) == "5000m"
        await tab.evaluate("document.querySelector('details').open = true; document.activeElement.blur()")
        page.report("ui-publishes", peak=7.0)
        eventually(lambda: page.data("nodes/ui-publishes")["prodPeak"]["cpuMilli"] == 7000, "the new peak is recorded")
        await tab.evaluate("refresh()")
        await tab.until(f"{legend} === '7000m'")
        assert await tab.evaluate("document.querySelector('details').open")
        assert tab.problems == []
