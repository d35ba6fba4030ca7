"""Which provider a plugin asks for utilisation: the part of its arguments that Trimaran's plugins share."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MetricProvider:
    """`metricProvider` of the arguments."""

    type: str = ""
    """Which provider: a name of the registry; empty: NodeMetric, what our own agents report."""
    address: str = ""
    """Its URL; empty: its usual one."""
    token: str = ""
    """Bearer token, or the token of the service."""
    insecure_skip_verify: bool | None = None
    """Whether its certificate is not checked (false)."""


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """Everything that a provider is made from."""

    metric_provider: MetricProvider
    """What the arguments say of the provider."""
    watcher_address: str | None = None
    """URL of a load-watcher service; if given, the provider is that service whatever else is said."""
