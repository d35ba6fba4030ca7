"""The provider settings in a plugin's arguments, which Trimaran's plugins share."""

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

NODE_METRIC: Final = "NodeMetric"
"""No provider of its own: what our agents report is in the snapshot. The same as an empty type."""
LOAD_WATCHER: Final = "LoadWatcher"
"""The load-watcher service; `watcherAddress` selects it, `metricProvider.type` cannot."""

PROVIDERS: Final[Mapping[str, str]] = {
    LOAD_WATCHER: "scheduler_plugins.providers.load_watcher:make",
    "Prometheus": "scheduler_plugins.providers.prometheus:make",
    "KubernetesMetricsServer": "scheduler_plugins.providers.metrics_server:make",
    "SignalFx": "scheduler_plugins.providers.signal_fx:make",
}
"""Where the maker of each provider is."""

TYPES: Final = (NODE_METRIC, *(name for name in PROVIDERS if name != LOAD_WATCHER))
"""The values of `metricProvider.type`, beside none. Case matters, as upstream."""


_LONGEST_WINDOW: Final = 24 * 3600.0
_SECONDS: Final = (1.0, 3600.0)
_METRIC: Final = 4096  # the longest query that is sent. [characters]


@dataclass(frozen=True, slots=True)
class MetricProvider:
    """`metricProvider` of the arguments: upstream's four fields, and ours."""

    type: str = ""  # which provider: a name of the registry; empty: NodeMetric, what our own agents report
    address: str = ""  # its URL; empty: its usual one
    token: str = field(default="", repr=False)  # bearer token, or the token of the service
    insecure_skip_verify: bool | None = None  # whether its certificate is not checked (false)
    ca_file: str = ""  # PEM file of the authority that its certificate is checked by; empty: those of the system
    token_file: str = ""  # file that the token is read from before each fetch, in place of `token`
    cpu_metric: str = ""
    """Prometheus: the series, or any expression, of the CPU in use as a share (0..1) of the node's CPUs; empty:
    `instance:node_cpu:ratio`."""
    memory_metric: str = ""  # the same of the memory; empty: `instance:node_memory_utilisation:ratio`
    node_label: str = ""  # Prometheus: the label that names the node; empty: `instance`
    node_pattern: str = ""
    """A regular expression with one group that takes the node's name out of that label, which it has to match as a
    whole; empty: the label is the name."""
    window_duration: float = 900.0  # Prometheus and SignalFx: what average and deviation are taken over [s]
    smoothed: bool | None = None
    """True if each sample is itself a mean over some minutes, so that its deviation is too small; None: as is usual for
    the provider (true for Prometheus, whose rules record rates, and for the load-watcher service)."""
    host_name_suffix: str = ""  # SignalFx: the suffix of the host names
    cluster_name: str = ""  # SignalFx: the dimension `cluster` of the hosts; empty: any
    interval_seconds: float = 30.0  # time between two fetches [s]
    timeout_seconds: float = 10.0  # how long a fetch may take [s]

    def mistakes(self) -> Sequence[tuple[str, str]]:
        """Return the invalid fields, as JSON name and sentence. The type is not checked."""
        result = []
        if self.address and not is_url(self.address):
            result.append(("address", f"{without_login(self.address)!r}: must be a URL, as in https://prometheus:9090"))
        if self.token and self.token_file:
            result.append(("tokenFile", "must not be given beside token"))
        for name, metric in (("cpuMetric", self.cpu_metric), ("memoryMetric", self.memory_metric)):
            if len(metric) > _METRIC:
                result.append((name, f"must not be longer than {_METRIC} characters"))
        if self.node_pattern:
            result += [("nodePattern", why) for why in _pattern_mistakes(self.node_pattern)]
        for name, value, allowed in (
            ("windowDuration", self.window_duration, (1.0, _LONGEST_WINDOW)),
            ("intervalSeconds", self.interval_seconds, _SECONDS),
            ("timeoutSeconds", self.timeout_seconds, _SECONDS),
        ):
            if not (math.isfinite(value) and allowed[0] <= value <= allowed[1]):
                result.append((name, f"{value:g}: must be from {allowed[0]:g} s to {allowed[1]:g} s"))
        return result


def is_url(text: str) -> bool:
    """Return whether this is an http or https URL with a host, without a query or credentials that logs would show."""
    try:
        parts = urlsplit(text)
        return bool(
            parts.scheme in ("http", "https")
            and parts.hostname
            and not (parts.query or parts.fragment or parts.username)
            and parts.port != 0
        )
    except ValueError:
        return False


def without_login(url: str) -> str:
    """Return a URL for messages: dots replace a login and a query, which may be secrets."""
    return re.sub(r"[?#].*", "?...", re.sub(r"//.*@", "//...@", url, flags=re.DOTALL), flags=re.DOTALL)


def _pattern_mistakes(pattern: str) -> list[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # of what another Python will read in another way
            groups = re.compile(pattern).groups
    except FutureWarning as warning:
        return [
            f"{pattern!r}: {str(warning)[:1].lower()}{str(warning)[1:]}: write \\ before a character that means itself"
        ]
    except (re.error, RecursionError, OverflowError) as error:
        return [f"{pattern!r}: is no regular expression: {error}"]
    return [] if groups == 1 else [f"{pattern!r}: must have exactly one group, the name of the node; it has {groups}"]


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """Everything that a provider is made from."""

    metric_provider: MetricProvider  # the arguments' provider settings
    watcher_address: str | None = None
    """URL of a load-watcher service; if given, the provider is that service whatever else is configured."""
    parity: bool = False
    """True if percentages are taken as upstream takes them, mistakes included: KubernetesMetricsServer's of the
    capacity, and not of allocatable."""
