"""Prometheus as a source, by a scripted server."""

import base64
import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from kubectl_headroom.backtest.sources import QUERIES, Options, SourceUnavailableError, prometheus_api
from kubectl_headroom.backtest.trace import PodLifetime, TraceError
from tests.kubectl_headroom.backtest.pod_files import pod, pods_file
from tests.kubectl_headroom.backtest.trace_files import trace, traces
from tools.devcluster.component import free_port

START = 1_700_000_100.0
HOUR = 3600.0
GIB = 1 << 30
Answer = tuple[int, Any]


class Server:
    """Returns 0.5 cores (or a GiB) of two pods to range queries, and their requests."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], dict[str, str]]] = []
        """Path, parameters and headers of each request."""
        self.override: Callable[[str, dict[str, str]], Answer | None] = lambda _path, _parameters: None
        """A test's own answer."""
        self.homes = {
            "web": {"node": "n1", "created_by_kind": "ReplicaSet", "created_by_name": "web-5d4f8c7b9"},
            "night": {"node": "n2", "created_by_kind": "Job", "created_by_name": "night-28401120"},
        }
        """Labels of kube_pod_info by pod."""
        self.amounts = {"web": 2.0, "night": 1.0}
        """Requests by pod."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def answer(self, path: str, parameters: dict[str, str]) -> Answer:
        answer = self.override(path, parameters)
        if answer is not None:
            return answer
        query = parameters["query"]
        if path.endswith("/query_range"):
            times = np.arange(float(parameters["start"]), float(parameters["end"]) + 1, float(parameters["step"]))
            used = "0.5" if "container_cpu" in query else str(GIB)
            result = [
                {"metric": labels(name), "values": [[time, used] for time in times.tolist()]} for name in self.homes
            ]
            return 200, {"status": "success", "data": {"resultType": "matrix", "result": result}}
        vector: list[Any] = []
        if "kube_pod_info" in query:
            vector = [{"metric": labels(name) | more, "value": [0, "1"]} for name, more in self.homes.items()]
        elif "resource_requests" in query:
            vector = [{"metric": labels(name), "value": [0, str(value)]} for name, value in self.amounts.items()]
        return 200, {"status": "success", "data": {"resultType": "vector", "result": vector}}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                parameters = {name: values[0] for name, values in parse_qs(parts.query).items()}
                server.requests.append((parts.path, parameters, dict(self.headers)))
                code, content = server.answer(parts.path, parameters)
                body = content if isinstance(content, bytes) else json.dumps(content).encode()
                with contextlib.suppress(ConnectionError):  # the client has gone
                    self._send(code, body)

            def _send(self, code: int, body: bytes) -> None:
                self.send_response(code)
                if code in range(300, 400):
                    self.send_header("Location", "https://elsewhere/")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler


def labels(name: str) -> dict[str, str]:
    return {"namespace": "shop", "pod": name}


def failed(code: int, error: str) -> Answer:
    return code, {"status": "error", "errorType": "execution", "error": error}


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def window(hours: float = 1.0, **more: Any) -> Options:  # noqa: ANN401 - options
    return Options(**{"resources": ("cpu",), "since": START, "until": START + hours * HOUR, **more})


def test_pods_are_where_they_were(server: Server) -> None:
    """Use, requests, nodes and workloads come together; a point is about the five minutes before it."""
    cpu, memory = traces("prometheus", server.url, options=window(resources=("cpu", "memory")))
    assert cpu.times.tolist() == [START + 300 * step for step in range(12)]
    assert (cpu.names, cpu.machines) == (("shop/web", "shop/night"), ("n1", "n2"))
    assert cpu.lifetimes == (PodLifetime(0, 0, 0, 12), PodLifetime(1, 1, 0, 12))
    assert cpu.limits.tolist() == [2.0, 1.0]
    assert cpu.workloads == ("shop/ReplicaSet/web", "shop/CronJob/night")
    assert (cpu.usage == 0.5).all()
    assert (memory.usage == GIB).all()


def test_long_windows_are_queried_by_days(server: Server) -> None:
    """No query spans more than a day, 288 points; no time is requested twice or left out."""
    result = trace("prometheus", server.url, options=window(60.0))
    spans = [(float(p["start"]), float(p["end"])) for path, p, _ in server.requests if path.endswith("/query_range")]
    assert [round((end - start) / 300) + 1 for start, end in spans] == [288, 288, 144]
    assert result.steps == 720
    assert not np.isnan(result.usage).any()


def test_too_large_answers_are_halved(server: Server) -> None:
    """A query that is too large for the server is halved, and the trace is the same."""

    def limited(path: str, parameters: dict[str, str]) -> Answer | None:
        long = path.endswith("/query_range") and float(parameters["end"]) - float(parameters["start"]) > 4 * HOUR
        return failed(422, "query processing would load too many samples into memory") if long else None

    whole = trace("prometheus", server.url, options=window(24.0))
    server.override = limited
    result = trace("prometheus", server.url, options=window(24.0))
    np.testing.assert_array_equal(result.usage, whole.usage)
    server.override = lambda path, _: failed(422, "too many samples") if path.endswith("/query_range") else None
    with pytest.raises(TraceError, match="too much for it even hour by hour"):
        trace("prometheus", server.url, options=window(24.0))


def test_too_long_answers_are_not_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_api, "BODY_LIMIT", 2000)
    assert trace("prometheus", server.url, options=window(6.0)).steps == 72


def test_own_queries_and_files(server: Server, tmp_path: Path) -> None:
    """Queries can be given; a label `node` on them says where a pod is; a file says what pods request."""
    server.homes["web"].pop("node")
    server.homes["night"].pop("node")
    server.amounts.clear()

    def own(path: str, parameters: dict[str, str]) -> Answer | None:
        if path.endswith("/query_range") and parameters["query"] == "own":
            result = [{"metric": labels("web") | {"node": "n9"}, "values": [[START + 300, "3"], [START + 600, "NaN"]]}]
            return 200, {"status": "success", "data": {"resultType": "matrix", "result": result}}
        return None

    server.override = own
    file = pods_file(tmp_path / "pods.json", pod("shop/web", {"cpu": "4"}))
    result = trace("prometheus", server.url, options=window(queries={"cpu": "own"}, pods=(file,)))
    assert (result.machines, result.limits.tolist(), result.usage.tolist()) == (("n9",), [4.0], [[3.0]])


def test_pods_that_do_not_count(server: Server) -> None:
    """Pods below Prod, without a request, or on no known node are left out, each with its reason."""
    server.homes |= {
        "low": {"node": "n1", "priority_class": "koord-batch"},
        "free": {"node": "n1"},
        "lost": {},
    }
    server.amounts |= {"low": 1.0, "lost": 1.0}
    result = trace("prometheus", server.url, options=window())
    assert result.names == ("shop/web", "shop/night")
    assert result.notes == (
        f"1 pods are on no node that is known; query {QUERIES['pods']!r} has the node of each pod.",
        "1 of 5 pods left out, nothing is known of them but their use: shop/lost.",
        "1 of 5 pods left out, not Prod: shop/low.",
        "1 of 5 pods left out, without a request or limit for cpu: shop/free.",
    )


@pytest.mark.parametrize(
    ("owner", "workload"),
    [
        (("ReplicaSet", "web-5d4f8c7b9"), "shop/ReplicaSet/web"),
        (("ReplicaSet", "by-hand"), "shop/ReplicaSet/by-hand"),
        (("StatefulSet", "web-5d4f8c7b9"), "shop/StatefulSet/web-5d4f8c7b9"),
        (("Job", "night-28401120"), "shop/CronJob/night"),
        (("Job", "once"), "shop/Job/once"),
        (("Node", "n1"), "shop/Pod/web"),
        (("<none>", "<none>"), ""),
    ],
)
def test_workloads_of_owners(server: Server, owner: tuple[str, str], workload: str) -> None:
    """An owner's name without the part that changes from run to run, as the agent names workloads."""
    server.homes["web"] |= {"created_by_kind": owner[0], "created_by_name": owner[1]}
    result = trace("prometheus", server.url, options=window())
    assert result.workloads is not None
    assert result.workloads[result.names.index("shop/web")] == workload


def test_last_fortnight_is_the_default(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a window the last 14 days before now are requested; with one, nothing after now."""
    monkeypatch.setattr("time.time", lambda: START + 100 * HOUR + 17)
    trace("prometheus", server.url, options=Options(("cpu",)))
    trace("prometheus", server.url, options=Options(("cpu",), last_seconds=2 * HOUR))
    trace("prometheus", server.url, options=Options(("cpu",), since=START + 99 * HOUR, until=START + 500 * HOUR))
    starts = [float(p["start"]) for path, p, _ in server.requests if path.endswith("/query_range")]
    ends = [float(p["end"]) for path, p, _ in server.requests if path.endswith("/query_range")]
    assert starts[0] == START + 100 * HOUR - 14 * 86400 + 300
    assert (starts[14], starts[15]) == (START + 98 * HOUR + 300, START + 99 * HOUR + 300)
    assert set(ends[13:]) == {START + 100 * HOUR}
    with pytest.raises(TraceError, match="--from must be before --until, and before now"):
        trace("prometheus", server.url, options=Options(("cpu",), since=START + 101 * HOUR))


def test_logins_are_shown(server: Server, tmp_path: Path) -> None:
    """A token is a bearer token, name and password a basic login, both from files."""
    (tmp_path / "secret").write_text("s3cret\n")
    trace("prometheus", server.url, options=window(token_file=str(tmp_path / "secret")))
    assert server.requests[-1][2]["Authorization"] == "Bearer s3cret"
    trace("prometheus", server.url, options=window(user="me", password_file=str(tmp_path / "secret")))
    assert base64.b64decode(server.requests[-1][2]["Authorization"].removeprefix("Basic ")) == b"me:s3cret"
    trace("prometheus", server.url + "/prefix/", options=window())
    assert server.requests[-1][0] == "/prefix/api/v1/query_range"
    assert "Authorization" not in server.requests[-1][2]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            failed(400, "invalid parameter: parse error"),
            "invalid parameter: parse error; give another one with --query",
        ),
        (failed(401, "no"), "refuses the login (401); give --token-file, or --user and --password-file"),
        (failed(403, "not yours"), "this login may not query it (403): not yours"),
        ((404, b"page not found"), "has no API of Prometheus (404); give the address before /api/v1"),
        (failed(422, "unknown function"), "cannot carry out query"),
        ((302, b""), "leads to https://elsewhere/; give that address"),
        ((200, b"<html>"), "answers what Prometheus does not: '<html>'; is it one?"),
        ((200, {"status": "success"}), "answers what Prometheus does not"),
        ((200, {"data": {"resultType": "scalar", "result": []}}), "gives 'scalar', it must give series, one per pod"),
        (
            (200, {"data": {"resultType": "vector", "result": [{"metric": {"pod": "a"}, "value": [0, "1"]}]}}),
            "gives series without the labels namespace and pod",
        ),
    ],
)
def test_wrong_answers_are_reported(server: Server, answer: Answer, says: str) -> None:
    server.override = lambda _path, _parameters: answer
    with pytest.raises(TraceError) as caught:
        trace("prometheus", server.url, options=window())
    assert says in str(caught.value)
    assert server.url in str(caught.value)
    assert not isinstance(caught.value, SourceUnavailableError)


def test_nothing_is_reported(server: Server) -> None:
    server.homes.clear()
    with pytest.raises(TraceError) as caught:
        trace("prometheus", server.url, options=window())
    assert QUERIES["cpu"] in str(caught.value)
    assert "give your own with --query NAME=QUERY" in str(caught.value)


def test_absence_is_reported(server: Server) -> None:
    """A server that fails, or is not there, is unavailable: that is another exit code."""
    server.override = lambda _path, _parameters: (503, b"starting")
    with pytest.raises(SourceUnavailableError, match="answers 503: starting"):
        trace("prometheus", server.url, options=window())
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(SourceUnavailableError, match="cannot be reached: Connection refused"):
        trace("prometheus", url, options=window())


def test_slowness_is_reported(server: Server) -> None:
    hold = threading.Event()

    def slow(_path: str, _parameters: dict[str, str]) -> None:
        hold.wait(30)

    server.override = slow
    try:
        with pytest.raises(SourceUnavailableError, match=re.escape("no answer within 0.05 s; give it longer")):
            trace("prometheus", server.url, options=window(timeout_seconds=0.05))
    finally:
        hold.set()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("prometheus:9090", "'prometheus:9090' must be a URL such as https://prometheus:9090"),
        ("ftp://prometheus", "must be a URL"),
        ("http://", "must be a URL"),
        ("http://a:b@prometheus/?x=1", "'...@prometheus/?x=1' must be a URL"),
        ("http://me:secret@prometheus", "a login in the URL would show in logs"),
    ],
)
def test_wrong_addresses_are_refused(url: str, says: str) -> None:
    """An address that is none is refused; a password in it is not repeated."""
    with pytest.raises(TraceError) as caught:
        trace("prometheus", url, options=window())
    assert says in str(caught.value)
    assert "secret" not in str(caught.value)


def test_proxy_of_the_environment_has_exceptions(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries go through the proxy of the environment, unless NO_PROXY names the server, also by a range."""
    monkeypatch.setenv("HTTP_PROXY", server.url.replace("http://", "http://user:p%40ss@"))
    monkeypatch.setenv("NO_PROXY", "ample.com,198.51.100.0/24")
    api = prometheus_api.Api("http://example.com:9090", Options())
    assert list(api.ranges("x", START, START + HOUR))
    _, _, headers = server.requests[-1]
    assert headers["Host"] == "example.com:9090"
    assert headers["Proxy-Authorization"] == "Basic " + base64.b64encode(b"user:p@ss").decode()
    monkeypatch.setenv("NO_PROXY", "192.0.2.0/24")
    with pytest.raises(SourceUnavailableError):
        list(prometheus_api.Api("http://192.0.2.1:9090", Options(timeout_seconds=0.2)).ranges("x", START, START + HOUR))
    assert len(server.requests) == 1
    monkeypatch.setenv("HTTP_PROXY", "socks5://localhost:1080")
    with pytest.raises(TraceError, match="HTTP_PROXY must be an http proxy"):
        prometheus_api.Api("http://example.com:9090", Options())


@pytest.mark.parametrize(
    ("options", "content", "says"),
    [
        ({"token_file": "F"}, None, "--token-file: F cannot be read: No such file"),
        ({"token_file": "F"}, "", "must have one line of plain text"),
        ({"token_file": "F"}, "a\nb", "must have one line of plain text"),
        ({"user": "u", "password_file": "F"}, None, "--password-file: F cannot be read"),
        ({"ca_file": "F"}, None, "--ca-file: F cannot be used"),
        ({"ca_file": "F"}, "no certificate", "--ca-file: F cannot be used"),
        ({"client_cert": "F"}, "no certificate", "--client-cert: F cannot be used"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, options: dict[str, Any], content: str | None, says: str) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_text(content)
    inputs: dict[str, Any] = {name: str(path) if value == "F" else value for name, value in options.items()}
    with pytest.raises(TraceError) as caught:
        trace("prometheus", "https://127.0.0.1:1", options=window(**inputs))
    assert says.replace("F", str(path), 1) in str(caught.value)


def test_queries_are_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/backtest.md").read_text()
    queries = {name: text for name, text in QUERIES.items() if name not in {"memory-requests", "memory-limits"}}
    assert [text for text in queries.values() if f"`{text}`" not in page] == []
    assert [name for name in QUERIES if f"`{name}`" not in page] == []
