"""Responses of the page and its access rules; no text of a cluster becomes code in it."""

import re

import pytest

from manager.config.in_force import after_change
from manager.mid.explanation.document import as_json
from manager.web import explanation
from manager.web.application import HEADERS
from manager.web.state import State
from tests.architecture.sources import ROOT
from tests.manager.web.made_cluster import Stored, World, ask, metric, prediction_ready, published, typical
from tests.support.objects import mid_pod, node

PAGE = (ROOT / "docs/ui.md").read_text(encoding="utf-8")
EVIL = "<script>alert(1)</script>"


def problems(world: World) -> str:
    return "; ".join(
        f"{problem['kind']}: {problem['text']}" for problem in ask(world, "/ui/api/overview").json["problems"]
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_reading_is_answered(method: str) -> None:
    world = typical()
    assert ask(world, "/ui", method="HEAD").status == 200
    refused = ask(world, "/ui", method=method)
    assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:8081", 200), ("127.0.0.1", 200), ("[::1]:9", 200), ("evil.example:8081", 403), ("", 403)],
)
def test_only_loopback_names_are_served(host: str, status: int) -> None:
    """A foreign name that points to loopback (DNS rebinding) reads nothing; behind a proxy any name is right."""
    assert ask(typical(), "/ui/api/overview", host=host).status == status
    assert ask(typical(), "/ui/api/overview", host=host, local=False).status == 200


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("/", 302),
        ("/ui", 200),
        ("/ui/", 302),
        ("/ui/nodes/n1", 200),
        ("/ui/nodes/n2", 200),  # the script requests it, and shows that there is none
        ("/ui/nodes/", 404),
        ("/ui/static/style.css", 200),
        ("/ui/static/../application.py", 404),
        ("/ui/static/", 404),
        ("/ui/api/nodes/n1/explain", 200),
        ("/ui/api/nodes/n1/none", 404),
        ("/ui/api/nodes/n2", 404),
        ("/ui/api/none", 404),
        ("/uix", 404),
        ("/ui?" + "&".join(f"a{index}=1" for index in range(500)), 200),
        ("/ui?page=99999999999999&sort=none&state=none&range=none&prediction=x", 200),
    ],
)
def test_answers_forbid_foreign_content_type_guessing_frames_and_caches(url: str, status: int) -> None:
    answer = ask(typical(), url)
    assert answer.status == status
    assert dict(HEADERS).items() <= answer.headers.items()
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


def test_page_is_one_file() -> None:
    """Each address of the page is the same file, with one script and no inline script, style or foreign address."""
    page = ask(typical(), "/ui").body
    assert ask(typical(), "/ui/nodes/anything").body == page
    assert re.findall(r"<script[^>]*>", page) == ['<script src="/ui/static/page.js" defer>']
    assert not re.search(r"<style|\sstyle=|\son\w+=", page)
    assert all(address.startswith(("/ui", "#")) for address in re.findall(r'(?:href|src)="([^"]*)"', page))


def test_script_makes_no_markup() -> None:
    """The script puts names and messages into text nodes and attributes, and has no way to make markup of them."""
    script = ask(typical(), "/ui/static/page.js").body
    unsafe = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|new Function|srcdoc|javascript:"
    )
    assert not re.search(unsafe, script)


def test_any_text_is_answered_as_json() -> None:
    world = World()
    said = prediction_ready(ready=False, reason=EVIL, message=EVIL)
    result = metric(conditions=(said, {**published(), "message": EVIL}), cold_names=(EVIL,), ready=False)
    result["status"]["prediction"]["policy"]["model"] = EVIL
    pod = mid_pod(EVIL)
    world.put(node("n1", labels={"a": EVIL}, annotations={"node.koordinator.sh/reservation": EVIL}), result, pod)
    world.context.in_force = after_change(world.context.in_force, f'{{"enable": "{EVIL}"}}', present=True)
    world.context.progress.problem = EVIL
    world.sample()
    assert EVIL in problems(world)
    for url in ("/ui/api/nodes", "/ui/api/nodes/n1/explain", f'/ui/api/nodes?q={EVIL}"onfocus="x'):
        answer = ask(world, url, Stored(result))
        assert (answer.status, answer.headers["X-Content-Type-Options"]) == (200, "nosniff")
        assert answer.json


def test_the_page_explains_as_the_command_does() -> None:
    """A node's explanation is that of `kubectl headroom explain node`, with why its NodeMetric could not be read."""
    world, result = typical(), metric()
    explained = explanation.of_node(world.context, Stored(result), "n1")
    assert explained is not None
    data = ask(world, "/ui/api/nodes/n1/explain", Stored(result)).json
    assert data == {**as_json(explained[0]), "problem": "", "pods": data["pods"]}
    assert {term["name"] for term in data["terms"]} >= {"reserved", "unused", "mid"}
    away = ask(world, "/ui/api/nodes/n1/explain", Stored(problem="it is away")).json
    assert away["problem"] == "it is away"


def test_numbers_for_programs() -> None:
    world = typical()
    overview, (node,) = ask(world, "/ui/api/overview").json, ask(world, "/ui/api/nodes").json["nodes"]
    assert overview["sums"]["usage"] == {"cpuMilli": 6000, "memoryBytes": 24 * 2**30}
    assert (overview["sums"]["prodUsage"]["cpuMilli"], overview["states"]) == (4000, {"publishing": 1})
    assert node == ask(world, "/ui/api/nodes/n1").json
    assert (node["node"], node["mid"]) == ("n1", {"cpuMilli": 4000, "memoryBytes": 10 * 2**30})
    for url in ("/ui/api/history?range=24h", "/ui/api/nodes/n1/history"):
        lines = ask(world, url).json
        assert (lines["cpuCores"]["prodPeak"][-1], lines["memoryGiB"]["prodRequested"][-1]) == (5.0, 30.0)
        assert len(lines["times"]) == len(lines["cpuCores"]["usage"])


def test_boxes_at_the_top_name_the_first_action() -> None:
    empty = World()
    empty.context.progress.nodes_listed = False
    assert "warning: The numbers are not complete yet: Nodes have not been listed yet" in problems(empty)
    fresh = World()
    fresh.put(node("n1"), metric(conditions=(prediction_ready(ready=False), published("ColocationDisabled"))))
    fresh.sample()
    assert "Colocation is disabled, so" in ask(fresh, "/ui/api/overview").json["next"]["text"]
    command = "kubectl -n headroom-system edit configmap slo-controller-config"
    assert ask(fresh, "/ui/api/overview").json["next"]["command"] == command
    world = typical()
    assert ask(world, "/ui/api/overview").json["next"] is None
    world.context.in_force = after_change(world.context.in_force, '{"enable": "maybe"}', present=True)
    assert "error: The colocation config cannot be used" in problems(world)


def test_fault_of_ours_is_logged_and_the_next_request_served(caplog: pytest.LogCaptureFixture) -> None:
    world = typical()
    row = world.recorder.rows.pop("n1")
    world.recorder.rows["n1"] = None  # type: ignore[assignment]
    assert ask(world, "/ui/api/nodes").status == 500
    assert "please report it" in caplog.text
    world.recorder.rows["n1"] = row
    assert ask(world, "/ui/api/nodes").status == 200


def lines_of_the_script() -> set[str]:
    script = ask(typical(), "/ui/static/page.js").body
    return set(re.findall(r'\["\w+", "([^"]+)"\]', script.partition("const LINES")[2].partition(";")[0]))


def test_the_page_is_documented() -> None:
    """docs/ui.md has each state, the most urgent first as in lists, each line of a plot and each path for programs."""
    states, lines = (
        re.findall(r"^\| ([^|]+) \|", PAGE.partition(title)[2].partition("\n\n")[0], flags=re.MULTILINE)
        for title in ("| state | meaning |\n", "| line | what it is |\n")
    )
    assert [state.strip("` ") for state in states] == [state.value for state in State]
    assert {name.strip() for row in lines for name in row.split(",")} - {"---"} == lines_of_the_script()
    paths = re.findall(r"^(/ui/api/\S+)", PAGE, flags=re.MULTILINE)
    answers = [ask(typical(), path.replace("NAME", "n1")) for path in paths]
    assert [(answer.status, bool(answer.json)) for answer in answers] == [(200, True)] * 7
