"""The agent over HTTP: /healthz, /readyz, /livez, /metrics, and pages that others add. Knows names and texts only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from headroom.runtime import http
from headroom.runtime.health import Health

YAML: Final = "application/yaml"


@dataclass(frozen=True, slots=True)
class Page:
    """One more path."""

    text: Callable[[], str]  # makes its content. A RuntimeError or OSError becomes 503 with its message.
    content_type: str = http.TEXT  # what it is

    def __call__(self, _request: http.Request) -> http.Reply:
        """Its content now."""
        try:
            return http.Reply(self.text().encode(), content_type=self.content_type)
        except (RuntimeError, OSError) as error:  # the store's
            return http.Reply.text(f"{error}\n", 503)


def pages(metrics: Callable[[], bytes], health: Health, more: Mapping[str, Page] | None = None) -> http.Pages:
    """All pages of the agent."""

    def livez(_request: http.Request) -> http.Reply:
        """200 while the program can answer: restarting it because the disk is full would lose what it remembers."""
        return http.Reply.text("ok\n")

    return {
        **http.health_pages(lambda: health, livez=livez),
        ("GET", "/metrics"): http.MetricsPage(metrics),
        **{("GET", path): page for path, page in (more or {}).items()},
    }
