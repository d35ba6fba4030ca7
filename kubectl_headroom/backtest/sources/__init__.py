"""Where traces come from: folders of CSV files, or Prometheus. Read only."""

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from kubectl_headroom.backtest.trace import Resource, Trace, TraceError

SOURCES: Final[Mapping[str, str]] = {
    "trace": "kubectl_headroom.backtest.sources.folder:read",
    "prometheus": "kubectl_headroom.backtest.sources.prometheus:read",
}
"""Where each source is: a function from places and options to traces, one per resource."""

REQUESTS: Final = "requests"
LIMITS: Final = "limits"
BASES: Final = (REQUESTS, LIMITS)
"""The basis of a cluster's pods: their requests (else their limits), or their limits alone."""

QUERIES: Final[Mapping[str, str]] = {
    "cpu": 'sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{container!="",container!="POD"}[5m]))',
    "memory": 'sum by (namespace, pod) (avg_over_time(container_memory_working_set_bytes{container!="",container!="POD"}[5m]))',  # noqa: E501 - one query
    "cpu-requests": 'sum by (namespace, pod) (kube_pod_container_resource_requests{resource="cpu"})',
    "memory-requests": 'sum by (namespace, pod) (kube_pod_container_resource_requests{resource="memory"})',
    "cpu-limits": 'sum by (namespace, pod) (kube_pod_container_resource_limits{resource="cpu"})',
    "memory-limits": 'sum by (namespace, pod) (kube_pod_container_resource_limits{resource="memory"})',
    "pods": "max by (namespace, pod, node, created_by_kind, created_by_name, priority_class) (kube_pod_info)",
}
"""Prometheus queries by name: use in cores and bytes, requests and limits, and the node of each pod."""

Progress: TypeAlias = Callable[[float, str], None]
"""Called with the share that is done (0..1) and the next piece of work."""


class OptionError(ValueError):
    """An option that cannot be used; the message names the valid choices."""


class SourceUnavailableError(TraceError):
    """The source does not answer."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a source. Raises OptionError for an invalid one."""

    resources: tuple[Resource, ...] = ("cpu", "memory")
    since: float | None = None  # where to begin; None: with the first sample [seconds since 1970]
    until: float | None = None  # before what to end; None: after the last sample [seconds since 1970]
    last_seconds: float | None = None  # only this much of the end [s]
    basis: str = REQUESTS  # one of `BASES`; ignored for traces of machines, whose requests are their limits
    pods: tuple[str, ...] = ()
    """Files of pods with requests and limits, as `kubectl get pods --all-namespaces -o json` prints them."""
    queries: Mapping[str, str] = field(default_factory=dict)
    """Prometheus, as all fields below: queries that replace those of `QUERIES`, by name."""
    token_file: str = ""
    ca_file: str = ""  # the authority that its certificate is checked by; empty: those of the system
    client_cert: str = ""
    client_key: str = ""  # empty: it is in the same file as the certificate
    user: str = ""
    password_file: str = ""
    insecure: bool = False  # whether its certificate is not checked
    timeout_seconds: float = 30.0  # how long one answer may take [s]

    def __post_init__(self) -> None:
        if self.basis not in BASES:
            raise OptionError(f"{self.basis!r} is no basis; there are: {', '.join(BASES)}")
        for name in self.queries:
            if name not in QUERIES:
                raise OptionError(f"there is no query {name!r}; there are: {', '.join(QUERIES)}")
        if self.token_file and self.user:
            raise OptionError("a token and a user are two logins; give --token-file or --user")
        if bool(self.user) != bool(self.password_file):
            raise OptionError("a login with name and password needs both --user and --password-file")
        if self.client_key and not self.client_cert:
            raise OptionError("--client-key is the key of a certificate; give --client-cert, too")
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise OptionError("--from must be before --until")

    def has(self, time: float) -> bool:
        """Return whether a time is wanted, by `since` and `until` alone. [seconds since 1970]"""
        return (self.since is None or time >= self.since) and (self.until is None or time < self.until)


def read(kind: str, places: Sequence[str], options: Options, progress: Progress) -> list[Trace]:
    """The traces of a source of that kind, one per resource; blocks until all is read.

    Places are folders, files or a URL, at least one. Raises TraceError if they cannot be read, or nothing in them can
    be evaluated.
    """
    reader: Callable[[Sequence[str], Options, Progress], list[Trace]] = pkgutil.resolve_name(SOURCES[kind])
    return [_last(trace, options.last_seconds) for trace in reader(places, options, progress)]


def _last(trace: Trace, seconds: float | None) -> Trace:
    """The end of a trace; pods that ended before it are omitted."""
    first = 0 if seconds is None else max(trace.steps - max(round(seconds / trace.step_seconds), 1), 0)
    if first == 0:
        return trace
    if trace.lifetimes is None:
        return replace(trace, times=trace.times[first:], usage=trace.usage[first:])
    left = [lifetime for lifetime in trace.lifetimes if lifetime.end > first]
    series = sorted({lifetime.series for lifetime in left})
    homes = sorted({lifetime.machine for lifetime in left})
    moved = tuple(
        replace(
            lifetime,
            series=series.index(lifetime.series),
            machine=homes.index(lifetime.machine),
            start=max(lifetime.start - first, 0),
            end=lifetime.end - first,
        )
        for lifetime in left
    )
    names: dict[str, Any] = {
        "names": tuple(trace.names[place] for place in series),
        "workloads": trace.workloads and tuple(trace.workloads[place] for place in series),
        "machines": trace.machines and tuple(trace.machines[place] for place in homes),
    }
    usage, limits = trace.usage[first:, series], trace.limits[series]
    return replace(trace, times=trace.times[first:], usage=usage, limits=limits, lifetimes=moved, **names)
