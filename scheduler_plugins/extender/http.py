"""What a page of ours is asked and answers, whatever serves it."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    method: str
    """GET or POST."""
    path: str
    """Decoded path, without the query: "/debug/nodes/a"."""
    query: Mapping[str, str] = field(default_factory=dict)
    """The last value of each parameter; "" for `?verbose`."""
    body: bytes = b""
    """The body."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer."""

    body: bytes
    """The body."""
    status: int = 200
    """HTTP status."""
    content_type: str = JSON
    """Its type."""

    @classmethod
    def json(cls, data: Any, status: int = 200) -> "Reply":  # noqa: ANN401 - any JSON
        """JSON."""
        return cls(json.dumps(data).encode(), status)

    @classmethod
    def text(cls, text: str, status: int = 200) -> "Reply":
        """Plain text."""
        return cls(text.encode(), status, TEXT)


Page: TypeAlias = Callable[[Request], Reply | Awaitable[Reply]]
"""Answers requests of one method and path."""
Pages: TypeAlias = Mapping[tuple[str, str], Page]
"""Pages by method and path; a path that ends in "/" stands for all that begin so."""
