"""From arguments to a provider; each failure is one sentence, never a crash."""

import asyncio
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from headroom.kube import ApiServer
from scheduler_plugins.arguments import encode
from scheduler_plugins.providers.provider import Cluster, Provider, ProviderError
from scheduler_plugins.providers.runner import make
from scheduler_plugins.providers.spec import TYPES, MetricProvider, ProviderSpec, is_url
from scheduler_plugins.providers.web import Site, parsed
from tests.scheduler_plugins.providers.server import answering
from tools.devcluster.certs import Pki


async def fetch(url: str, path: str = "/x", limit: int = 1000, **settings: Any) -> Any:  # noqa: ANN401
    async with Site(url, MetricProvider(**settings), body_limit=limit).session() as session:
        return await session.get(path)


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path / "pki")


def server_tls(pki: Pki) -> ssl.SSLContext:
    pair = pki.server("server", ["127.0.0.1"])
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.cert, pair.key)
    return tls


async def test_token_is_sent() -> None:
    async with answering({"/x": lambda _: {"a": 1}}) as server:
        assert await fetch(server.url, token="abc") == {"a": 1}  # noqa: S106
        assert server.requests[-1][2]["Authorization"] == "Bearer abc"


async def test_proxy_of_the_environment_has_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go through the proxy of the environment, unless NO_PROXY names the server, also by a range."""
    async with answering({"/x": lambda _: {"a": 1}}) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url)
        monkeypatch.setenv("NO_PROXY", "198.51.100.0/24")
        assert await fetch("http://192.0.2.1:9090") == {"a": 1}
        assert server.requests[-1][2]["Host"] == "192.0.2.1:9090"
        monkeypatch.setenv("NO_PROXY", "192.0.2.0/24")
        with pytest.raises(ProviderError):
            await fetch("http://192.0.2.1:9090", timeout_seconds=0.2)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        lambda request: web.Response(status=401, text=f"who is {request.headers['Authorization']}?"),
        lambda request: web.Response(status=403, reason=f"not {request.headers['Authorization']}"),
        lambda request: web.Response(status=500, text="x" * 195 + request.headers["Authorization"]),  # cut within it
        lambda request: web.Response(text=f"you sent {request.headers['Authorization']}"),
    ],
    ids=["body", "reason", "at the end of the excerpt", "no JSON"],
)
async def test_repeated_token_is_redacted(answer: Callable[[web.Request], web.Response]) -> None:
    async with answering({"/x": answer}) as server:
        with pytest.raises(ProviderError) as caught:
            await fetch(server.url, token="s3cret-t0ken-of-yours")  # noqa: S106
    texts = str(caught.value)
    assert not any(piece in texts for piece in ("s3cret", "t0ken", "yours"))
    assert texts


async def test_token_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    async with answering({"/x": lambda _: {}}) as server:
        for token in ("one", "two"):
            file.write_text(f"{token}\n")
            await fetch(server.url, token_file=str(file))
        assert [headers["Authorization"] for _, _, headers in server.requests] == ["Bearer one", "Bearer two"]


async def test_bad_token_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match=r"token file .*/none cannot be read: No such file"):
        await fetch("http://127.0.0.1:1", token_file=str(tmp_path / "none"))
    (tmp_path / "bad").write_text("a\nb")
    with pytest.raises(ProviderError, match="the token is not one line"):
        await fetch("http://127.0.0.1:1", token_file=str(tmp_path / "bad"))


async def test_certificate_is_checked(pki: Pki) -> None:
    async with answering({"/x": lambda _: {"a": 1}}, server_tls(pki)) as server:
        with pytest.raises(ProviderError, match=r"its certificate is refused .*caFile"):
            await fetch(server.url)
        assert await fetch(server.url, ca_file=str(pki.ca)) == {"a": 1}
        assert await fetch(server.url, insecure_skip_verify=True) == {"a": 1}


async def test_invalid_ca_is_reported(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("no certificate")
    with pytest.raises(ProviderError, match=r"certificate authority .*/ca.crt is unusable"):
        await fetch("https://127.0.0.1:1", ca_file=str(tmp_path / "ca.crt"))


async def test_large_answer_is_cut() -> None:
    async with answering({"/x": lambda _: web.Response(text=json.dumps(["x" * 2000]))}) as server:
        with pytest.raises(ProviderError, match="more than"):
            await fetch(server.url)
        assert await fetch(server.url, limit=10_000) == ["x" * 2000]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (web.Response, "not JSON: ''"),
        (lambda: web.Response(text="<html>\nno"), "not JSON: '<html> no'"),
        (lambda: web.Response(text="[" * 900), "not JSON"),
        (lambda: web.Response(status=503, text="busy\n"), "/x answers 503: busy"),
        (lambda: web.Response(status=401), "/x answers 401: Unauthorized"),
        (lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}), "302: a redirection"),
        (lambda: web.Response(body=b"\xff\xfe\xff"), "not JSON"),
    ],
)
async def test_malformed_responses_are_reported(answer: Any, sentence: str) -> None:  # noqa: ANN401
    async with answering({"/x": lambda _: answer()}) as server:
        with pytest.raises(ProviderError, match=sentence):
            await fetch(server.url)


async def test_missing_server_is_reported() -> None:
    async with answering({}) as server:
        url = server.url
    with pytest.raises(ProviderError, match=r"cannot be reached: Connect call failed|Connection refused"):
        await fetch(url)


async def test_slow_response_times_out() -> None:
    over = asyncio.Event()

    async def never(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"[")
        await over.wait()
        return response

    async with answering({"/x": never}) as server:
        with pytest.raises(ProviderError, match=r"no answer within 0\.05 s"):
            await fetch(server.url, timeout_seconds=0.05)
        over.set()


async def test_first_failure_ends_the_other_requests(pki: Pki) -> None:
    arrived, over = asyncio.Event(), asyncio.Event()

    async def never(_: web.Request) -> web.Response:
        arrived.set()
        await over.wait()
        return web.Response(text="[]")

    async def bad(_: web.Request) -> web.Response:
        await arrived.wait()
        return web.Response(status=400, text="no")

    async with answering({"/slow": never, "/bad": bad}, server_tls(pki)) as server:
        settings = MetricProvider(ca_file=str(pki.ca))
        before = {task.get_coro() for task in asyncio.all_tasks()}
        async with Site(server.url, settings).session() as session:
            with pytest.raises(ProviderError, match="/bad answers 400"):
                await session.get_all([("/slow", None), ("/bad", None)])
            left = {task.get_coro() for task in asyncio.all_tasks()} - before
            assert not [entry for entry in left if "Session.get" in repr(entry)]
        over.set()


def test_huge_numbers_are_no_json() -> None:
    with pytest.raises(ProviderError, match="not JSON"):
        parsed(b"[" + b"9" * 10_000 + b"]")


NOWHERE = Cluster(cast("ApiServer", None), lambda _name: None)


def made(watcher_address: str | None = None, **settings: Any) -> Provider:  # noqa: ANN401
    return make(ProviderSpec(MetricProvider(**settings), watcher_address), NOWHERE)


def test_type_selects_the_provider() -> None:
    assert made(type="Prometheus").address == "http://prometheus-k8s:9090"
    assert made(type="SignalFx").address == "https://api.signalfx.com"
    assert made(type="Prometheus", address="https://p:9").address == "https://p:9"
    assert {made(type=name).name for name in TYPES if name != "NodeMetric"} == set(TYPES) - {"NodeMetric"}


def test_watcher_comes_first() -> None:
    provider = made("http://w:2020", type="Prometheus", address="http://p:9090")
    assert (provider.name, provider.address) == ("LoadWatcher", "http://w:2020")


@pytest.mark.parametrize("name", ["", "NodeMetric", "prometheus", "Datadog"])
def test_others_are_no_providers(name: str) -> None:
    with pytest.raises(LookupError, match="Prometheus"):
        made(type=name)


def test_unchecked_certificate_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    made(type="Prometheus")
    assert caplog.text == ""
    made(type="Prometheus", insecure_skip_verify=True)
    assert "is not checked" in caplog.text


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"address": "prometheus:9090"}, "address"),
        ({"address": "http://u:p@host"}, "address"),
        ({"token": "a", "token_file": "b"}, "tokenFile"),
        ({"node_pattern": "("}, "nodePattern"),
        ({"node_pattern": "abc"}, "nodePattern"),
        ({"node_pattern": "(a)(b)"}, "nodePattern"),
        ({"node_pattern": "([[:alpha:]]+)"}, "nodePattern"),  # another dialect: it matches no node
        ({"window_duration": 0.0}, "windowDuration"),
        ({"interval_seconds": float("nan")}, "intervalSeconds"),
        ({"timeout_seconds": 1e9}, "timeoutSeconds"),
        ({"cpu_metric": "x" * 5000}, "cpuMetric"),
    ],
)
def test_invalid_arguments_are_reported(settings: dict[str, Any], field: str) -> None:
    assert [name for name, _ in MetricProvider(**settings).mistakes()] == [field]


def test_good_settings_have_no_mistakes() -> None:
    assert MetricProvider().mistakes() == []
    used = MetricProvider("Prometheus", "https://p:9090/base", "abc", node_pattern="(.*):9100", ca_file="/ca.crt")
    assert used.mistakes() == []


@pytest.mark.parametrize("text", ["", "http://", "ftp://a", "http://a:99999", "http://[", "http://a?b=c", "//a"])
def test_other_texts_are_no_urls(text: str) -> None:
    assert not is_url(text)


def test_token_is_not_shown() -> None:
    settings = MetricProvider("SignalFx", token="s3cret")  # noqa: S106
    assert "s3cret" not in repr(settings)
    assert encode(settings, secrets=False)["token"] == "..."  # noqa: S105
    assert encode(settings)["token"] == "s3cret"  # noqa: S105
