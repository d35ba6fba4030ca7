"""What the page answers, to whom, and that nothing of a cluster can become code in it."""

import html.parser
import json

import pytest

from manager.config.in_force import after_change
from manager.mid.explanation.document import as_json
from manager.mid.explanation.findings import findings
from manager.web import explanation
from manager.web.application import HEADERS
from tests.manager.web.made_cluster import World, metric, prediction_ready, published, typical
from tests.manager.web.served import Stored, ask
from tests.support.objects import mid_pod, node

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


def test_only_reading_is_answered() -> None:
    """GET and HEAD are answered, everything else is refused."""
    world = typical()
    assert ask(world, "/ui").status == 200
    assert ask(world, "/ui", method="HEAD").status == 200
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        refused = ask(world, "/ui", method=method)
        assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "url",
    ["/ui", "/ui/nodes/n1", "/ui/nodes/none", "/ui/api/overview", "/ui/static/page.js", "/ui/static/none", "/", "/x"],
)
def test_every_answer_is_guarded(url: str) -> None:
    """Each answer, also an error, forbids foreign content, guessing of types, frames and caches."""
    headers = ask(typical(), url).headers
    assert dict(HEADERS).items() <= headers.items()
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


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
def test_paths(url: str, status: int) -> None:
    """Each path has its answer, and what does not exist says so."""
    assert ask(typical(), url).status == status


@pytest.mark.parametrize("url", ["/ui", "/ui/nodes/n1", "/ui?state=selling&sort=cpu&range=24h", "/ui/nodes/none"])
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
    text = _Parsed(ask(world, "/ui/nodes/n1", Stored(found)).body).text
    sentences = findings(explained[0])
    assert sentences
    assert all(sentence in text for sentence in sentences)
    data = ask(world, "/ui/api/nodes/n1/explain", Stored(found)).json
    assert data == as_json(explained[0])
    assert {term["name"] for term in data["terms"]} >= {"reserved", "unused", "mid"}
    assert all(term["name"] in text for term in data["terms"])
    assert data["calculated"] == {"cpuMilli": 4000, "memoryBytes": 10 * 2**30}


def test_the_page_goes_on_without_the_api_server() -> None:
    """While the NodeMetric cannot be read, the plots stay and the page says what is missing."""
    text = _Parsed(ask(typical(), "/ui/nodes/n1", Stored(problem="it is away")).body).text
    assert "The NodeMetric could not be read now (it is away)" in text
    assert "6 cores of 16 cores" in text


def test_one_node_is_not_nodes() -> None:
    """The list says how many nodes there are, in the number that one has."""
    assert "<caption>Nodes: 1 node</caption>" in ask(typical(), "/ui").body


def test_numbers_for_programs() -> None:
    """The API has the same numbers with units in the names, and lines over time."""
    world = typical()
    overview = ask(world, "/ui/api/overview").json
    assert overview["sums"]["used"] == {"cpuMilli": 6000, "memoryBytes": 24 * 2**30}
    assert overview["sums"]["usedByProd"]["cpuMilli"] == 4000
    assert overview["states"] == {"selling": 1}
    listed = ask(world, "/ui/api/nodes").json
    assert [each["node"] for each in listed["nodes"]] == ["n1"]
    assert listed["nodes"][0] == ask(world, "/ui/api/nodes/n1").json
    assert listed["nodes"][0]["offered"] == {"cpuMilli": 4000, "memoryBytes": 10 * 2**30}
    for url in ("/ui/api/history?range=24h", "/ui/api/nodes/n1/history"):
        lines = ask(world, url).json
        assert lines["cpuCores"]["peak"][-1] == 5.0
        assert lines["memoryGiB"]["requested"][-1] == 30.0
        assert len(lines["times"]) == len(lines["cpuCores"]["used"])


def test_an_empty_cluster_says_so() -> None:
    """Without nodes there is a sentence instead of empty tables, and before they were listed another one."""
    world = World()
    assert "This cluster has no nodes" in ask(world, "/ui").body
    world.context.progress.nodes_listed = False
    body = ask(world, "/ui").body
    assert "has just started" in body
    assert "Nodes have not been listed yet" in body


def test_a_fresh_installation_says_what_to_do() -> None:
    """While colocation is disabled the page says so, and which command changes that."""
    world = World()
    world.put(node("n1"), metric(conditions=(prediction_ready(ready=False), published("ColocationDisabled"))))
    world.look()
    text = _Parsed(ask(world, "/ui").body).text
    assert "Colocation is disabled" in text
    assert "kubectl -n headroom-system edit configmap slo-controller-config" in text
    assert "Colocation is disabled, so" not in _Parsed(ask(typical(), "/ui").body).text


def test_faults_of_the_config_are_told() -> None:
    """A config that cannot be used stands on every page, with the first fault."""
    world = typical()
    world.context.in_force = after_change(world.context.in_force, '{"enable": "maybe"}', present=True)
    for url in ("/ui", "/ui/nodes/n1"):
        assert "The colocation config cannot be used" in _Parsed(ask(world, url).body).text


def test_a_fault_of_ours_is_one_answer(caplog: pytest.LogCaptureFixture) -> None:
    """An error that should not happen is logged and answered, and the next request is served."""
    world = typical()
    row = world.recorder.rows.pop("n1")
    world.recorder.rows["n1"] = None  # type: ignore[assignment]
    assert ask(world, "/ui").status == 500
    assert "please report it" in caplog.text
    world.recorder.rows["n1"] = row
    assert ask(world, "/ui").status == 200


def test_plots_carry_their_numbers() -> None:
    """What the script shows under the pointer stands in the page, and the picture says its last numbers in words."""
    page = _Parsed(ask(typical(), "/ui/nodes/n1", Stored(metric())).body)
    cpu, memory = page.named("figure")
    assert json.loads(str(cpu["data-values"]))["peak"][-1] == 5.0
    assert json.loads(str(memory["data-values"]))["offered"][-1] == 10.0
    label = next(
        str(each["aria-label"]) for each in page.named("svg") if "CPU of node n1" in str(each.get("aria-label"))
    )
    assert "Predicted peak of Prod 5 cores" in label
    assert "Used by all 6 cores" in label
