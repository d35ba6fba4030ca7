"""The options of the manager itself; what it does to nodes is set in the ConfigMap."""

from dataclasses import dataclass, field
from typing import Final

from crds.names import CONFIG_MAP_NAME, LAST_GOOD_NAME
from headroom.kube.lease import LeaderSettings
from manager.mid.node_filter import NodeFilter

DEFAULT_NAMESPACE: Final = "headroom-system"
LEASE_NAME: Final = "headroom-manager"
"""The Lease that decides which replica writes, in the manager's namespace."""


@dataclass(frozen=True, slots=True)
class TimingSettings:
    """Intervals and rates, chosen for 5,000 nodes that report each minute on one core."""

    workers: int = 32
    """How many nodes are worked on at the same time. They wait for the API server, not for the CPU.

    83 nodes a second with two writes each get their numbers at once while a write takes up to 0.15 s; 8 workers would
    fall behind from 0.05 s on.
    """
    coalesce_seconds: float = 0.2
    """Changes of one node within this time lead to one calculation. [s]"""
    tick_seconds: float = 1.0
    """How often deadlines are checked: expired reports, increases that have held. [s]"""
    resync_seconds: float = 600.0
    """How often everything is listed again, which finds objects whose deletion the watch missed. [s]"""
    first_retry_seconds: float = 1.0
    """Pause after a failed write; it doubles with each further failure of the same node. [s]"""
    longest_retry_seconds: float = 30.0
    """Longest such pause. [s]"""
    write_burst: int = 5
    """How many writes to one Node may follow one another at once; a decrease is never delayed."""
    write_refill_seconds: float = 10.0
    """After these writes, one more may follow after this long. [s]"""


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The admission webhook that refuses a wrong ConfigMap; names are those of the chart."""

    listen: str = ""
    """Address to answer API servers on, host:port; empty: there is no webhook."""
    certificates: str = "self"
    """Who makes certificates: self (the replica that leads) or cert-manager."""
    service_name: str = "headroom-manager-webhook"
    """Service by which API servers call it, in the manager's namespace."""
    secret_name: str = "headroom-manager-webhook-tls"  # noqa: S105 - a name
    """Secret with the certificate, in the manager's namespace."""
    configuration_name: str = "headroom-colocation-config"
    """ValidatingWebhookConfiguration in which API servers find the authority to trust."""
    poll_seconds: float = 10.0
    """How often the Secret is read. [s]"""
    first_poll_seconds: float = 1.0
    """How soon it is read again at first, and before there is a certificate to serve; then ever later. [s]"""
    settle_seconds: float = 5.0
    """How long API servers get to learn of a new authority before a certificate of it is served. [s]"""


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole of it; the flags of `headroom-manager` set the most of it."""

    kubeconfig: str | None = None
    """Path of a kubeconfig; without it the pod's service account, $KUBECONFIG or ~/.kube/config."""
    namespace: str = DEFAULT_NAMESPACE
    """Where the ConfigMap and the Lease are."""
    config_name: str = CONFIG_MAP_NAME
    """Name of the ConfigMap."""
    listen: str = ":8080"
    """Address of /metrics and /healthz, host:port; an empty host means all."""
    log_format: str = "text"
    """Form of the log on standard error: text or json, one event per line."""
    log_level: str = "info"
    """The least severe message that is logged: debug, info, warning or error."""
    exclude_nodes: NodeFilter = field(default_factory=NodeFilter)
    """Which nodes get no NodeMetric and publish nothing: virtual ones, which cannot be measured."""
    leader: LeaderSettings = field(default_factory=LeaderSettings)
    """Leader election."""
    timing: TimingSettings = TimingSettings()
    """Speed."""
    webhook: WebhookSettings = WebhookSettings()
    """Admission webhook."""
    ui_listen: str = ""
    """Address of the built-in web page, host:port; empty: there is none. It needs no login, so loopback is best."""
    last_good_name: str = LAST_GOOD_NAME
    """ConfigMap in which the last good configuration outlives a restart."""
    identity: str = ""
    """Name of this replica in the Lease; must differ between replicas."""

    @property
    def user_agent(self) -> str:
        """User agent of this replica, so that an audit log distinguishes replicas."""
        return f"headroom-manager ({self.identity})" if self.identity else "headroom-manager"
