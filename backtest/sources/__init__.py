"""Where traces come from, one file per source: files, agents' databases, Prometheus. Read only, no cluster needed.

Each source is a frozen dataclass whose first field holds the places it was given and whose other fields are its
options, which `--source-option NAME=VALUE` sets.
"""

import dataclasses
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from backtest.trace import Resource, Trace

SOURCES: Final[Mapping[str, str]] = {
    "trace": "backtest.sources.folder:Folder",
    "db": "backtest.sources.agent_database:AgentDatabase",
    "prometheus": "backtest.sources.prometheus:Prometheus",
    "nodemetrics": "backtest.sources.node_metrics:NodeMetrics",
}
"""Where the maker of each source is."""

REQUESTS: Final = "requests"
LIMITS: Final = "limits"
BASES: Final = (REQUESTS, LIMITS)
"""What a cluster's pods count with: what they request (else their limit), or their limit alone."""

Say = Callable[[str], None]
"""Told what is being read, a few words at a time."""


class SourceOptionError(ValueError):
    """An option that the source does not have, or a value that it cannot take; the message says what there is."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted of a source."""

    resources: tuple[Resource, ...] = ("cpu", "memory")
    """Which resources."""
    start: float | None = None
    """Where to begin; None: with the first sample. [seconds since 1970]"""
    end: float | None = None
    """Before what to end; None: after the last sample. [seconds since 1970]"""
    basis: str = REQUESTS
    """One of `BASES`; takes no part in traces of machines, whose requests are their limits."""
    pods: Path | None = None
    """Pods with requests and limits as `kubectl get pods --all-namespaces -o json` prints them, where the source has
    none."""

    def has(self, time: float) -> bool:
        """Whether a time is wanted. [seconds since 1970]"""
        return (self.start is None or time >= self.start) and (self.end is None or time < self.end)


class Source(Protocol):
    """Something that has traces."""

    def read(self, wanted: Wanted, say: Say) -> list[Trace]:
        """The traces, one per resource and stretch of time; blocks until all is read.

        Args:
            wanted: which part of them.
            say: told what is being done.

        Raises:
            TraceError: they cannot be read, or nothing in them can be judged.
        """
        ...


def open_source(kind: str, places: Sequence[str], options: Mapping[str, str] | None = None) -> Source:
    """A source that has read nothing yet.

    Args:
        kind: a name of `SOURCES`.
        places: folders, files or a URL, at least one.
        options: by the names of `option_names`, as text.

    Raises:
        SourceOptionError: the source has no such option, or cannot take a value.
    """
    maker = pkgutil.resolve_name(SOURCES[kind])
    fields = _options(maker)
    given = {}
    for name, text in (options or {}).items():
        if name not in fields:
            there = f"there are: {', '.join(fields)}" if fields else f"--{kind} has none"
            raise SourceOptionError(f"there is no option {name!r}; {there}")
        given[fields[name].name] = _value(name, text, fields[name])
    source: Source = maker(places=tuple(places), **given)
    return source


def option_names(kind: str) -> dict[str, str]:
    """The options of a source, and what each means."""
    maker = pkgutil.resolve_name(SOURCES[kind])
    return {name: str(field.metadata["help"]) for name, field in _options(maker).items()}


def option(default: Any, meaning: str) -> Any:  # noqa: ANN401 - as dataclasses.field
    """A field that is an option: text, a number, or a switch, as its default is."""
    return dataclasses.field(default=default, metadata={"help": meaning})


def _options(maker: Any) -> "dict[str, dataclasses.Field[Any]]":  # noqa: ANN401 - any dataclass
    return {_camel(field.name): field for field in dataclasses.fields(maker) if "help" in field.metadata}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def _value(name: str, text: str, field: "dataclasses.Field[Any]") -> Any:  # noqa: ANN401 - what the field holds
    if isinstance(field.default, bool):
        if text not in ("true", "false"):
            raise SourceOptionError(f"{name} must be true or false, got: {text!r}")
        return text == "true"
    if isinstance(field.default, float):
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0.0 < number < float("inf"):
            raise SourceOptionError(f"{name} must be a number above 0, got: {text!r}")
        return number
    return text
