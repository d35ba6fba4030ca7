"""The layout of the page in a real browser, from a manager without an API server: widths, colours, plots, tables."""

from collections.abc import Iterator
from typing import Any

import pytest

from manager.http import HttpServer
from manager.web.application import Application
from tests.manager.web.browser import Tab, tab_of
from tests.manager.web.made_cluster import Stored, World, metric, prediction_ready
from tests.support.objects import at, mid_pod, node, pod, resources

pytestmark = pytest.mark.alone  # a browser takes a core

REASON = "0/2 nodes are available: 2 Insufficient kubernetes.io/mid-cpu."
CONTRASTS = """(() => {
  const luminance = ([red, green, blue]) => [red, green, blue].map((part) => part / 255)
    .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const ground = (node) => {
    for (let here = node; here; here = here.parentElement) {
      const colour = numbers(getComputedStyle(here).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const texts = [...document.querySelectorAll("body *:not(title)")]
    .filter((node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()));
  return texts.map((node) => {
    const style = getComputedStyle(node), colour = luminance(numbers(node.ownerSVGElement ? style.fill : style.color));
    const [dark, light] = [colour, luminance(ground(node))].sort((one, other) => one - other);
    return [(light + 0.05) / (dark + 0.05), node.outerHTML.slice(0, 100)];
  }).filter(([contrast]) => contrast < 4.5);
})()"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A node with memory far below its allocatable and equal lines, a node that is NotReady, and a pending Mid pod."""
    world = World()
    result = metric(gib=6.0, peak=5.0, cold_names=("shop/young",))
    result["status"]["podsMetric"] = [
        {"namespace": "shop", "name": name, "podUsage": resources("1500m", "3Gi")} for name in ("web", "young", "batch")
    ]
    prod = [pod(name, {"cpu": "3000m", "memory": "2Gi"}) for name in ("web", "young")]
    world.put(node("n1", cpu="10", mid=("6000", "10Gi")), result, *prod, mid_pod("batch"))
    away = node("n2", conditions=[{"type": "Ready", "status": "Unknown"}])
    world.put(away, metric("n2", ready=False, conditions=(prediction_ready(ready=False),)))
    world.sample()
    waiting = mid_pod("etl", on="")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": REASON}
    waiting["metadata"]["creationTimestamp"] = at(-90)
    waiting["status"] = {"phase": "Pending", "conditions": [condition]}
    application = Application(world.context, Stored(result, pods=(waiting,)), local=True)
    server = HttpServer("127.0.0.1:0", application.pages(), "--ui-listen")
    server.start()
    try:
        yield f"http://localhost:{server.port}/ui"
    finally:
        server.stop()


async def shown(tab: Tab, address: str) -> None:
    await tab.open(address)
    await tab.until("document.querySelectorAll('figure.plot').length === 2")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["", "/nodes/n1"])
async def test_texts_are_legible_and_fit(url: str, browser: int, path: str, scheme: str, width: int) -> None:
    """The page never scrolls sideways, and text has a contrast of 4.5:1, on a desktop and a phone."""
    async with tab_of(browser) as tab:
        await tab.scheme(scheme)
        await tab.narrow(width)
        await shown(tab, f"{url}{path}")
        await tab.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        assert await tab.evaluate("document.documentElement.scrollWidth") <= width
        assert await tab.evaluate(CONTRASTS) == []
        assert tab.problems == []


async def test_wide_tables_show_that_they_scroll(url: str, browser: int) -> None:
    """On a phone the edge of a wide table has a shadow; the keyboard reaches the table and scrolls it."""
    async with tab_of(browser) as tab:
        await tab.narrow(390)
        await shown(tab, url)
        region = "document.querySelector('.scroll:has(.list)')"
        assert await tab.evaluate(f"{region}.scrollWidth > {region}.clientWidth")
        style = await tab.evaluate(f"getComputedStyle({region}).backgroundAttachment")
        assert style == "local, local, scroll, scroll"  # the shadows stay at the edges, their covers scroll
        await tab.evaluate(
            "document.querySelector('.scroll:has(.list)').previousElementSibling.querySelector('button').focus()"
        )
        await tab.press("Tab", 9)
        assert await tab.evaluate(f"document.activeElement === {region} && {region}.matches(':focus-visible')")
        assert await tab.evaluate(f"getComputedStyle({region}).outlineStyle") == "solid"
        await tab.press("ArrowRight", 39)
        await tab.until(f"{region}.scrollLeft > 0")


async def test_axes_end_near_the_data(url: str, browser: int) -> None:
    """The largest value is within a tenth of the end of the axis, which has three ticks or more."""
    async with tab_of(browser) as tab:
        await shown(tab, f"{url}/nodes/n1")
        axes = await tab.evaluate("[0.003, 0.99, 1, 2, 7.75, 8.1, 64, 5001, 960000].map((size) => [size, axis(size)])")
        for size, axis in axes:
            assert size <= axis["top"] <= 1.1 * size
            assert 3 <= len(axis["ticks"]) <= 7
            assert axis["ticks"][-1] <= axis["top"]
        assert (await tab.evaluate("axis(0)"))["top"] == 1


async def test_lines_are_told_apart(url: str, browser: int) -> None:
    """A far allocatable becomes a sentence, so that the axis fits the other lines; equal lines share their dashes."""
    async with tab_of(browser) as tab:
        await shown(tab, f"{url}/nodes/n1")
        assert "Allocatable 64Gi is above this plot" in await text(tab, "figure[data-resource=memory]")
        assert await tab.evaluate("document.querySelector('figure[data-resource=memory] g ~ path.allocatable')") is None
        assert "above this plot" not in await text(tab, "figure[data-resource=cpu]")
        dashes = """["prodRequested", "mid", "usage"]
          .map((line) => document.querySelector(`figure[data-resource=cpu] g ~ path.line.${line}`).style)
          .map((style) => [style.strokeDasharray, style.strokeDashoffset])"""
        turns = [["8, 16", "0"], ["8, 16", "-8"], ["8, 16", "-16"]]
        assert [[part.replace("px", "") for part in line] for line in await tab.evaluate(dashes)] == turns


async def test_pods_have_usage_and_reasons(url: str, browser: int) -> None:
    async with tab_of(browser) as tab:
        await shown(tab, f"{url}/nodes/n1")
        assert await rows(tab, "table.pods") == [
            ["shop/batch", "mid", "1500m", "3000m", "3Gi", "2Gi", "beyond requests"],
            ["shop/web", "prod", "1500m", "3000m", "3Gi", "2Gi", "warm"],
            ["shop/young", "prod", "1500m", "3000m", "3Gi", "2Gi", "cold"],
        ]
        await shown(tab, url)
        assert await rows(tab, "table.pending") == [["shop/etl", "3000m/2Gi", "1m30s", REASON]]
        listed = {row[0]: row for row in await rows(tab, "table.list")}
        assert listed["n2"][1] == "NotReady"
        assert listed["n2"][5:7] == ["0m/0", "0m/0"]


async def rows(tab: Tab, table: str) -> list[list[str]]:
    cells = (
        f"[...document.querySelectorAll('{table} tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))"
    )
    result: list[list[str]] = await tab.evaluate(cells)
    return result


async def text(tab: Tab, place: str) -> Any:  # noqa: ANN401 - any JSON
    return await tab.evaluate(f"document.querySelector('{place}').textContent")
