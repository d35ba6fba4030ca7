import asyncio
from typing import Final
from unittest.mock import Mock

from hypothesis import strategies as st

from headroom.runtime.http.connection import Connection, Limits, ListenerState
from headroom.runtime.http.pages import Pages, Reply, Request
from tests.fuzz.inputs import damaged
from tests.fuzz.strength import fuzz

LIMITS: Final = Limits(body_bytes=300, head_bytes=200, buffered_bytes=2000)
REQUESTS: Final = (
    "GET /echo?x=1 HTTP/1.1\r\nHost: x\r\n\r\n",
    "POST /echo HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
    "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: x\r\n\r\n",
    "HEAD /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "GET /echo HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
)


def wire() -> Mock:
    """A connection that can be half closed, as TCP can."""
    result = Mock(asyncio.Transport)
    ended = (result.close, result.abort, result.write_eof)
    result.is_closing.side_effect = lambda: any(end.called for end in ended)
    result.can_write_eof.return_value, result.get_write_buffer_size.return_value = True, 0
    return result


def answered(pieces: list[bytes]) -> tuple[bytes, bool, list[Request]]:
    """A connection's response to bytes in these pieces, its state, and the parsed requests."""
    understood: list[Request] = []

    def echo(request: Request) -> Reply:
        understood.append(request)
        return Reply(request.body)

    pages: Pages = {("GET", "/echo"): echo, ("POST", "/echo"): echo}
    shared, transport = ListenerState(pages, LIMITS, "now"), wire()
    connection = Connection(shared)
    connection.connection_made(transport)
    for piece in pieces:
        connection.data_received(piece)
    still_open = not transport.is_closing()
    said = [call for call in transport.method_calls if call[0] in ("write", "close", "abort", "write_eof")]
    names = [name for name, *_ in said]
    assert names == sorted(names, key="write".__ne__), "written after the end"
    connection.connection_lost(None)
    assert shared.buffered == 0
    assert not shared.connections
    assert all(len(request.body) <= LIMITS.body_bytes for request in understood)
    written = b"".join(args[0] for name, args, _ in said if name == "write")
    return written, still_open, understood


@st.composite
def cut(draw: st.DrawFn, whole: bytes) -> list[bytes]:
    cuts = sorted(draw(st.sets(st.integers(0, len(whole)), max_size=8)))
    return [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@fuzz(data=st.data(), requests=st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=4))
def test_answers_do_not_depend_on_how_the_network_cuts(data: st.DataObject, requests: list[str]) -> None:
    whole = "".join(requests).encode()
    assert answered(data.draw(cut(whole))) == answered([whole])
    assert answered([whole])[2]


@fuzz(data=st.data(), text=damaged(*REQUESTS, "".join(REQUESTS)), tail=st.binary(max_size=600))
def test_no_http_gets_an_answer_that_is_or_none_yet(data: st.DataObject, text: str, tail: bytes) -> None:
    written, still_open, _ = answered(data.draw(cut(text.encode("utf-8", "surrogatepass") + tail)))
    assert written.startswith(b"HTTP/1.1 ") or (still_open and not written)
