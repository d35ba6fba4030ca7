"""What the page answers, to whom, and that nothing of a cluster can become code in it."""

import html.parser
import json
import re

import pytest

from manager.config.in_force import after_change
from manager.mid.explanation.document import as_json
from manager.mid.explanation.findings import findings
from manager.web import explanation
from manager.web.application import HEADERS
from manager.web.plot import LINES
from manager.web.state import State
from tests.architecture.sources import ROOT
from tests.manager.web.made_cluster import Stored, World, ask, metric, prediction_ready, published, typical
from tests.support.objects import Json, mid_pod, node

PAGE = (ROOT / "docs/ui.md").read_text(encoding="utf-8")
EVIL = "<script>alert(1)</script>"


class _Parsed(html.parser.HTMLParser):
    """Elements and text of a page; fails where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        """Attributes of all elements of a name."""
        return [attributes for name, attributes in self.found if name == tag]


def text_of(world: World, url: str, *metrics: Json, problem: str = "") -> str:
    """The text of a page."""
    return _Parsed(ask(world, url, Stored(*metrics, problem=problem)).body).text


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
        ("/ui/nodes/n2", 404),
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
def test_every_answer_is_guarded(url: str, status: int) -> None:
    """Each answer, also an error, forbids foreign content, guessing of types, frames and caches."""
    answer = ask(typical(), url)
    assert answer.status == status
    assert dict(HEADERS).items() <= answer.headers.items()
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("url", ["/ui", "/ui/nodes/n1", "/ui?state=publishing&sort=cpu&range=24h", "/ui/nodes/none"])
def test_pages_are_whole(url: str) -> None:
    """Pages have matching tags, no inline script or style, a name for each picture, and nothing from elsewhere."""
    page = _Parsed(ask(typical(), url, Stored(metric())).body)
    assert all(attributes["src"] == "/ui/static/page.js" for attributes in page.named("script"))
    assert not page.named("style")
    assert not [name for name, attributes in page.found for key in attributes if key == "style" or key.startswith("on")]
    links = [attributes.get("href") or "" for name, attributes in page.found if "href" in attributes]
    assert all(href.startswith(("/ui", "#")) for href in links)
    pictures = [each for each in page.named("svg") if each.get("role") == "img"]
    assert all(each.get("aria-label") for each in pictures)
    assert all(each.get("role") == "img" or each.get("aria-hidden") for each in page.named("svg"))
    assert len(page.named("h1")) == 1
    assert page.named("html")[0]["lang"] == "en"


def test_names_never_become_code() -> None:
    """Whatever stands in names, messages and annotations, and in the query, arrives as text."""
    world = World()
    said = prediction_ready(ready=False, reason=EVIL, message=EVIL)
    found = metric(conditions=(said, {**published(), "message": EVIL}), cold_names=(EVIL,), ready=False)
    found["status"]["prediction"]["policy"]["model"] = EVIL
    pod = mid_pod(EVIL)
    world.put(node("n1", labels={"a": EVIL}, annotations={"node.koordinator.sh/reservation": EVIL}), found, pod)
    world.context.in_force = after_change(world.context.in_force, f'{{"enable": "{EVIL}"}}', present=True)
    world.context.progress.trouble = EVIL
    world.look()
    for url in ("/ui", "/ui/nodes/n1", f'/ui?q={EVIL}"onfocus="x', f"/ui/nodes/{EVIL}"):
        answer = ask(world, url, Stored(found))
        page = _Parsed(answer.body)
        assert len(page.named("script")) == 1, url
        assert EVIL in page.text or EVIL in str(page.found), url
        assert not [key for _, attributes in page.found for key in attributes if key.startswith("on")]


def test_the_page_explains_as_the_command_does() -> None:
    """The node's page has every finding and every term that `kubectl headroom explain node` prints."""
    world, found = typical(), metric()
    explained = explanation.of_node(world.context, Stored(found), "n1")
    assert explained is not None
    text, sentences = text_of(world, "/ui/nodes/n1", found), findings(explained[0])
    assert sentences
    assert all(sentence in text for sentence in sentences)
    data = ask(world, "/ui/api/nodes/n1/explain", Stored(found)).json
    assert data == as_json(explained[0])
    assert {term["name"] for term in data["terms"]} >= {"reserved", "unused", "mid"}
    assert all(term["name"] in text for term in data["terms"])


def test_numbers_for_programs() -> None:
    world = typical()
    overview, (node,) = ask(world, "/ui/api/overview").json, ask(world, "/ui/api/nodes").json["nodes"]
    assert overview["sums"]["used"] == {"cpuMilli": 6000, "memoryBytes": 24 * 2**30}
    assert (overview["sums"]["usedByProd"]["cpuMilli"], overview["states"]) == (4000, {"publishing": 1})
    assert node == ask(world, "/ui/api/nodes/n1").json
    assert (node["node"], node["published"]) == ("n1", {"cpuMilli": 4000, "memoryBytes": 10 * 2**30})
    for url in ("/ui/api/history?range=24h", "/ui/api/nodes/n1/history"):
        lines = ask(world, url).json
        assert (lines["cpuCores"]["peak"][-1], lines["memoryGiB"]["requested"][-1]) == (5.0, 30.0)
        assert len(lines["times"]) == len(lines["cpuCores"]["used"])


def test_plots_carry_their_numbers() -> None:
    """What the script shows under the pointer stands in the page, and the picture has its last numbers as text."""
    page = _Parsed(ask(typical(), "/ui/nodes/n1", Stored(metric())).body)
    cpu, memory = (json.loads(str(each["data-values"])) for each in page.named("figure"))
    assert (cpu["peak"][-1], memory["published"][-1]) == (5.0, 10.0)
    labels = [str(each.get("aria-label")) for each in page.named("svg")]
    (label,) = [each for each in labels if "CPU of node n1" in each]
    assert "Predicted peak of Prod 5 cores" in label
    assert "Used by all 6 cores" in label


def test_states_of_an_installation() -> None:
    """What to do first stands on the page: no nodes yet, colocation disabled, an API server away, a bad config."""
    empty = World()
    assert "This cluster has no nodes" in text_of(empty, "/ui")
    empty.context.progress.nodes_listed = False
    assert "has just started" in text_of(empty, "/ui")
    assert "Nodes have not been listed yet" in text_of(empty, "/ui")
    fresh = World()
    fresh.put(node("n1"), metric(conditions=(prediction_ready(ready=False), published("ColocationDisabled"))))
    fresh.look()
    assert "Colocation is disabled, so" in text_of(fresh, "/ui")
    assert "kubectl -n headroom-system edit configmap slo-controller-config" in text_of(fresh, "/ui")
    world = typical()
    assert "Colocation is disabled, so" not in text_of(world, "/ui")
    assert "<caption>Nodes: 1 node</caption>" in ask(world, "/ui").body
    away = text_of(world, "/ui/nodes/n1", problem="it is away")
    assert "The NodeMetric could not be read now (it is away)" in away
    assert "6 cores of 16 cores" in away
    world.context.in_force = after_change(world.context.in_force, '{"enable": "maybe"}', present=True)
    assert all("The colocation config cannot be used" in text_of(world, url) for url in ("/ui", "/ui/nodes/n1"))


def test_a_fault_of_ours_is_one_answer(caplog: pytest.LogCaptureFixture) -> None:
    """An error that should not happen is logged and answered, and the next request is served."""
    world = typical()
    row = world.recorder.rows.pop("n1")
    world.recorder.rows["n1"] = None  # type: ignore[assignment]
    assert ask(world, "/ui").status == 500
    assert "please report it" in caplog.text
    world.recorder.rows["n1"] = row
    assert ask(world, "/ui").status == 200


def test_the_page_is_documented() -> None:
    """docs/ui.md has each state, the most urgent first as in lists, each line of a plot and each path for programs."""
    states, lines = (
        re.findall(r"^\| ([^|]+) \|", PAGE.partition(title)[2].partition("\n\n")[0], flags=re.MULTILINE)
        for title in ("| state | meaning |\n", "| line | what it is |\n")
    )
    assert [each.strip("` ") for each in states] == [state.value for state in State]
    assert {name.strip() for row in lines for name in row.split(",")} - {"---"} == {line.name for line in LINES}
    paths = re.findall(r"^(/ui/api/\S+)", PAGE, flags=re.MULTILINE)
    answers = [ask(typical(), path.replace("NAME", "n1")) for path in paths]
    assert [(answer.status, bool(answer.json)) for answer in answers] == [(200, True)] * 6
