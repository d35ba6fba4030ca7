"""The agent over HTTP: /healthz, /readyz and /livez with their checks, /metrics, and pages that others add."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agent.settings import AgentSettings
from headroom.runtime import http
from headroom.runtime.health import Health

if TYPE_CHECKING:
    from agent.pipeline import Pipeline
    from agent.sources.pod import PodSource

YAML: Final = "application/yaml"
_FEWEST_TICKS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Page:
    """A more path; a RuntimeError or OSError that its text raises becomes 503 with that message."""

    text: Callable[[], str]
    content_type: str = http.TEXT

    def __call__(self, _request: http.Request) -> http.Reply:
        """Its content now."""
        try:
            return http.Reply(self.text().encode(), content_type=self.content_type)
        except (RuntimeError, OSError) as error:  # the store's
            return http.Reply.text(f"{error}\n", 503)


def pages(metrics: Callable[[], bytes], health: Health, more: Mapping[str, Page] | None = None) -> http.Pages:
    """All pages of the agent.

    /livez is 200 while the program responds: a restart because of a full disk would lose the samples in memory.
    """
    return {
        **http.health_pages(lambda: health, livez=lambda _request: http.Reply.text("ok\n")),
        ("GET", "/metrics"): http.MetricsPage(metrics),
        **{("GET", path): page for path, page in (more or {}).items()},
    }


def agent_health(
    settings: AgentSettings,
    pipeline: "Pipeline",
    pods: "PodSource",
    clock: Callable[[], float],
    facts: Mapping[str, Callable[[], str]],
) -> Health:
    """The checks, by a clock that only runs forward [s]; ``?verbose`` shows the facts.

    /healthz: ticks are made. /readyz, besides: node CPU and memory are measured, the pods were listed, and samples are
    written (a full disk may last ``--unready-after``). An API server that is away is in neither: the agent goes on
    without it, and a restart would not bring it back.
    """
    began = clock()
    longest = max(settings.serve.unhealthy_after_seconds, _FEWEST_TICKS * settings.collect.interval_seconds)

    def ticks() -> str:
        last = pipeline.ticked_at
        age = clock() - (began if last is None else last)
        if age <= longest:
            return ""
        return f"no tick was made for {age:.0f} s" if last is None else f"the last tick was made {age:.0f} s ago"

    def node() -> str:
        if pipeline.node_measured_at is None:
            return "CPU and memory of the node were not measured yet"
        age = clock() - pipeline.node_measured_at
        return f"the node was last measured {age:.0f} s ago" if age > longest else ""

    def listed() -> str:
        why = pods.problem or "waiting for the first list"
        return "" if pods.synced else f"the pods of this node were not listed yet: {why}"

    def store() -> str:
        age = 0.0 if pipeline.store_failing_since is None else clock() - pipeline.store_failing_since
        late = age > settings.serve.unready_after_seconds
        return f"samples are kept in memory for {age:.0f} s: {pipeline.store_problem}" if late else ""

    ready = {"node": node, "pods": listed, "store": store}
    return Health(healthy={"ticks": ticks}, ready=ready, facts=facts)
