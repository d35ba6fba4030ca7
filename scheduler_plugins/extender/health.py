"""The extender's health: named checks, and named facts that fail nothing."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from scheduler_plugins.snapshot.watch import ClusterWatch

_LOG: Final = logging.getLogger(__name__)

Line: TypeAlias = Callable[[], str]
"""A line about a part; "" without anything to report. Called per request: it must be fast."""


@dataclass(frozen=True, slots=True)
class Health:
    """The checks of /healthz and /readyz. Parts add theirs by name at the start."""

    required: dict[str, Line] = field(default_factory=dict)
    """Without these no request can be served: "" when met, else the problem. /readyz and /healthz fail."""
    checks: dict[str, Line] = field(default_factory=dict)  # "" when passed, else the problem. /healthz fails.
    states: dict[str, Line] = field(default_factory=dict)  # shown by /healthz?verbose, without effect on it

    def missing(self) -> list[str]:
        """The reasons why the extender cannot serve requests, one sentence each."""
        return _problems(self.required)

    def problems(self) -> list[str]:
        """The reasons why /healthz fails, one sentence each."""
        return list(dict.fromkeys([*_problems(self.required), *_problems(self.checks)]))

    def verbose(self) -> str:
        """A line per check and state, in the form of Kubernetes' own pages."""
        lines = []
        for name, line in (*self.required.items(), *self.checks.items()):
            problem = _result(name, line)
            lines.append(f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok")
        lines += [f"[i]{name}: {_result(name, line) or 'ok'}" for name, line in self.states.items()]
        return "".join(f"{line}\n" for line in lines)


def _problems(checks: Mapping[str, Line]) -> list[str]:
    return [problem for name, line in checks.items() if (problem := _result(name, line))]


def _result(name: str, line: Callable[[], Any]) -> str:
    """Return a check's line; a check that raises has failed."""
    try:
        return str(line())
    except Exception as error:  # noqa: BLE001 - a page about health stays up
        _LOG.exception("Check %s failed", name)
        return f"{name} failed: {type(error).__name__}: {error}"


def of_watches(watch: ClusterWatch, stale_seconds: float) -> Health:
    """Nothing can be answered before everything was listed once; all is not well while the API server is silent."""
    health = Health()
    for source in watch.sources:
        health.required[f"{source.kind} listed"] = source.unlisted
        health.checks[f"{source.kind} watched"] = partial(source.problem_of, stale_seconds)
        if source.absent_is_empty:
            health.states[f"{source.kind} defined"] = source.absence
    health.required["Nodes prepared"] = lambda: "records of nodes are being made" if watch.preparing else ""
    return health
