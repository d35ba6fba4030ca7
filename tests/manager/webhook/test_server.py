import asyncio
import contextlib
import json
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from manager.http import ListenError
from manager.webhook import server as server_module
from manager.webhook.listener import Listener
from tests.manager.webhook.served import NAME, Served, kopf_handler, made, review, run, serving
from tests.support.waiting import until

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def request(body: bytes, length: int | None = None) -> bytes:
    head = f"POST /configmaps HTTP/1.1\r\nHost: x\r\nContent-Length: {length or len(body)}\r\n\r\n"
    return head.encode() + body


@asynccontextmanager
async def connected(served: Served, number: int = 1, *, tls: bool = True) -> AsyncIterator[list[Stream]]:
    trust = served.trust() if tls else None
    streams = [await asyncio.open_connection("127.0.0.1", served.listener.port, ssl=trust) for _ in range(number)]
    try:
        yield streams
    finally:
        for _, writer in streams:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def hangs(*_: Any, **__: Any) -> Any:  # noqa: ANN401 - as kopf's
    await asyncio.Event().wait()


async def test_bad_edit_is_refused_with_all_faults_at_once(caplog: pytest.LogCaptureFixture) -> None:
    text = '{"enabl": true, "degradeTimeMinutes": 0, "nodeConfigs": [{"name": "a", "midCPUThresholdPercent": 101}]}'
    with caplog.at_level(logging.INFO):
        async with serving() as served:
            result = await served.ask(review(text, user="jane"))
            created = await served.ask(review("{", operation="CREATE"))
    assert result["allowed"] is False
    causes = {cause["field"]: cause["message"] for cause in result["status"]["details"]["causes"]}
    assert causes["enabl"] == "unknown field: did you mean enable?"
    assert causes["degradeTimeMinutes"] == "must be 1 to 10080, got 0"
    assert "got 101" in causes["nodeConfigs[0].midCPUThresholdPercent"]
    assert (created["allowed"], "not valid JSON" in created["status"]["message"]) == (False, True)
    assert served.count("refused") == 2
    said = [record.getMessage() for record in caplog.records]
    assert any(f"Refused an edit of ConfigMap {NAME} by jane, faults: 3: enabl" in message for message in said)
    assert not any(record.levelno >= logging.WARNING for record in caplog.records), said


@pytest.mark.parametrize(
    "body",
    [
        review('{"enable": true}'),
        review(None),  # the key is taken out: the defaults
        review(""),
        review('{"enable": 7}', before='{"enable": 7}'),  # a label is edited while the text is bad
        review('{"enable": 7}', name="kube-root-ca.crt"),
        review('{"enable": 7}', namespace="elsewhere"),
        review('{"enable": 7}', resource="secrets"),
        review('{"enable": 7}', operation="DELETE"),
        review('{"enable": true}', before=None, operation="CREATE"),
    ],
)
async def test_good_unchanged_and_foreign_texts_and_deletions_are_admitted(body: dict[str, Any]) -> None:
    async with serving() as served:
        result = await served.ask(body)
    assert result["allowed"] is True
    assert result["uid"] == body["request"]["uid"]
    assert "patch" not in result


async def test_warnings() -> None:
    """Ignored or probably unintended settings are admitted with a warning each; too long a text is not checked."""
    async with serving() as served:
        result = await served.ask(review('{"enable": true, "somethingElse": 1}'))
        assert (result["allowed"], ["somethingElse" in warning for warning in result["warnings"]]) == (True, [True])
        body = review("{}")
        body["request"]["object"]["data"] |= {"colocation-confg": "{}", "cpu-burst-config": "{}"}
        assert ["data.colocation-confg" in warning for warning in (await served.ask(body))["warnings"]] == [True]
        result = await served.ask(review("x" * (1024 * 1024 + 1)))
        assert (result["allowed"], served.count("unchecked")) == (True, 1)
        assert "longer than any ConfigMap" in result["warnings"][0]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "not JSON"),
        (b"\xff\xfe\x00", 400, "not JSON"),
        (b"[" * 200_000, 400, "not JSON"),
        (b"[]", 400, "not an AdmissionReview"),
        (b"[" + b'{"a":[]},' * 250_000 + b"1]", 400, "more parts than any review"),
        (b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": 1}', 400, "no request"),
        (b" " * (8 * 1024 * 1024 + 1), 413, "the body is larger than"),
    ],
)
async def test_garbage_is_answered(body: bytes, status: int, said: str, caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as served:
        result, text = await served.post(body)
        assert (result, said in text) == (status, True), text
        assert served.count("malformed") == 1
        assert (await served.ask(review("{}")))["allowed"] is True
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_connections_without_tls_or_request_keep_none_from_an_answer() -> None:
    async with serving() as served, connected(served, 2, tls=False) as plain, connected(served) as shaken:
        plain[0][1].write(b"GET / HTTP/1.0\r\n\r\n")
        untrusting = ssl.create_default_context(cadata=made().certificate.decode())
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", served.listener.port, ssl=untrusting)
        shaken[0][1].write(b"\x00\x01garbage\r\n\r\n")
        assert (await served.ask(review("{}")))["allowed"] is True


async def test_four_reviews_at_most_are_evaluated_at_once() -> None:
    evaluated: list[int] = []
    full = asyncio.Event()

    async def counts(*_: Any, **__: Any) -> Any:  # noqa: ANN401 - as kopf's
        evaluated.append(4 - served.server._turns._value)
        if len(evaluated) >= 4:
            full.set()
        await full.wait()
        raise RuntimeError("evaluated")

    async with serving(counts) as served:
        result = await asyncio.gather(*(served.post(review("{")) for _ in range(6)))
    assert (max(evaluated), len(evaluated)) == (4, 6)
    assert {status for status, _ in result} == {200}


async def test_review_beyond_the_limit_is_turned_away_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_MOST_PRESENT", 0)
    async with serving() as served:
        assert (await served.post(review("{")))[0] == 503
        assert served.count("malformed") == 1


async def test_fault_of_the_check_admits_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def fails(*_: Any, **__: Any) -> Any:  # noqa: ANN401 - as kopf's
        raise RuntimeError("boom")

    async with serving(fails) as served:
        result = await served.ask(review("{"))
    assert result["allowed"] is True
    assert "was not checked" in result["warnings"][0]
    assert served.count("unchecked") == 1
    assert "should not happen" in caplog.text


async def test_slow_check_admits_as_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_ANSWER_SECONDS", 0.1)
    async with serving(hangs) as served:
        result = await served.ask(review("{"))
    assert result["allowed"] is True
    assert "takes too long" in result["warnings"][0]


async def test_certificate_changes_under_way() -> None:
    async with serving() as served, connected(served) as ((reader, writer),):
        sent, old = request(json.dumps(review("{")).encode()), served.trust()
        writer.write(sent[:100])
        served.pair = made()
        served.serving.load(served.pair)
        assert (await served.ask(review("{")))["allowed"] is False  # trusts the new certificate alone
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", served.listener.port, ssl=old)
        writer.write(sent[100:])
        assert b"200" in await reader.readline()


async def test_nothing_listens_without_certificate() -> None:
    served = Served(made())
    block = run(served.server, kopf_handler())
    entering = asyncio.create_task(block.__aenter__())
    await asyncio.sleep(0)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", served.listener.port)
    served.serving.load(served.pair)
    await entering
    assert (await served.ask(review("{")))["allowed"] is False
    await block.__aexit__(None, None, None)


async def test_lost_port_is_waited_for(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(server_module, "_RETRY_SECONDS", 0.01)
    served = Served(made())
    served.serving.load(served.pair)
    async with run(served.server, kopf_handler()):
        pass
    thief = socket.create_server(("127.0.0.1", served.listener.port))
    block = run(served.server, kopf_handler())
    entering = asyncio.create_task(block.__aenter__())
    await until(lambda: "cannot listen" in caplog.text, "the port is waited for")
    thief.close()
    await entering
    assert (await served.ask(review("{")))["allowed"] is False
    await block.__aexit__(None, None, None)
    assert caplog.text.count("cannot listen") == 1


def test_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ListenError, match=rf"^--webhook-listen 127.0.0.1:{port}: .*in use; choose a free address"):
            Listener(f"127.0.0.1:{port}")
    for wrong in ("9443", "host:port", ":99999", ":"):
        with pytest.raises(ListenError, match="--webhook-listen"):
            Listener(wrong)


def test_all_addresses_are_both_families() -> None:
    listener = Listener(":0")
    with listener.take() as bound:
        bound.listen()
        with socket.create_connection(("127.0.0.1", listener.port)):
            pass
        if socket.has_dualstack_ipv6():
            with socket.create_connection(("::1", listener.port)):
                pass
    listener.close()
