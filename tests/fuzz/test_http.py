"""Bytes in place of HTTP."""

import asyncio
from typing import Final

from hypothesis import strategies as st

from headroom.runtime.http.connection import Connection, Limits, Shared
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


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.open = b"", True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep it."""
        assert self.open, "written after the end"
        self.written += bytes(data)

    def can_write_eof(self) -> bool:
        """As TCP can."""
        return True

    def write_eof(self) -> None:
        """No more comes."""
        self.open = False

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0

    def is_closing(self) -> bool:
        """Whether it is closed."""
        return not self.open

    def close(self) -> None:
        """Close."""
        self.open = False

    abort = close

    def pause_reading(self) -> None:
        """Nobody reads."""

    resume_reading = pause_reading


def _answered(pieces: list[bytes]) -> tuple[bytes, list[Request]]:
    """What a connection answers to bytes that come in these pieces, and the requests that it understood."""
    asked: list[Request] = []

    def echo(request: Request) -> Reply:
        asked.append(request)
        return Reply(request.body)

    pages: Pages = {("GET", "/echo"): echo, ("POST", "/echo"): echo}
    shared, wire = Shared(pages, LIMITS, "now"), Wire()
    connection = Connection(shared)
    connection.connection_made(wire)
    for piece in pieces:
        connection.data_received(piece)
    open_at_last = wire.open
    connection.connection_lost(None)
    assert shared.buffered == 0
    assert not shared.connections
    assert all(len(request.body) <= LIMITS.body_bytes for request in asked)
    return wire.written + (b"(open)" if open_at_last else b""), asked


@st.composite
def _cut(draw: st.DrawFn, whole: bytes) -> list[bytes]:
    cuts = sorted(draw(st.sets(st.integers(0, len(whole)), max_size=8)))
    return [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@fuzz(data=st.data(), requests=st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=4))
def test_pieces_do_not_matter(data: st.DataObject, requests: list[str]) -> None:
    """However the network cuts the bytes, the same requests are understood and the same answers given."""
    whole = "".join(requests).encode()
    assert _answered(data.draw(_cut(whole))) == _answered([whole])
    assert len(_answered([whole])[1]) >= 1


@fuzz(data=st.data(), text=damaged(*REQUESTS, "".join(REQUESTS)), tail=st.binary(max_size=600))
def test_damaged_requests(data: st.DataObject, text: str, tail: bytes) -> None:
    """Bytes that are no HTTP get an answer that is, or none yet; nothing breaks, and nothing stays behind."""
    written, _ = _answered(data.draw(_cut(text.encode("utf-8", "surrogatepass") + tail)))
    assert written == b"(open)" or written.startswith(b"HTTP/1.1 ")
