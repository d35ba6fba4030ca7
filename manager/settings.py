"""The options of the manager itself; the ConfigMap has the settings of nodes."""

import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from crds import shadow_accounts
from crds.names import CONFIG_MAP_NAME, LAST_GOOD_NAME
from headroom.runtime import logs, options
from headroom.runtime.option_types import FILE, NAME, SWITCH, Kind, choice
from headroom.runtime.options import setting
from manager.mid import node_filter
from manager.mid.node_filter import NodeFilter

PROG: Final = "headroom-manager"
ABOUT: Final = "Publishes on each Node what Prod pods requested and will not use."
DEFAULT_NAMESPACE: Final = "headroom-system"
LEASE_NAME: Final = "headroom-manager"
"""The Lease that decides which replica writes, in the manager's namespace."""


def _config_name(text: str) -> str:
    if text in {LAST_GOOD_NAME, *shadow_accounts.NAMES}:
        raise ValueError("is a ConfigMap that the manager itself writes")
    return str(NAME.parse(text))


_ADDRESS: Final = Kind("ADDRESS", str, may_be_empty=True)
_CONFIG_NAME: Final = Kind("NAME", _config_name)
_SELECTOR: Final = Kind("SELECTORS", NodeFilter.of, may_be_empty=True)


@dataclass(frozen=True, slots=True)
class TimingSettings:
    """Intervals and rates, chosen for 5,000 nodes that report each minute on one core."""

    workers: int = 32
    """The number of nodes that are reconciled at the same time. They wait for the API server, not for the CPU.

    83 nodes a second with two writes each get their numbers at once while a write takes up to 0.15 s; 8 workers would
    fall behind from 0.05 s on.
    """
    coalesce_seconds: float = 0.2
    """Changes of one node within this time lead to one calculation. [s]"""
    tick_seconds: float = 1.0
    """The interval at which deadlines are checked: expired reports, increases that have held. [s]"""
    resync_seconds: float = 600.0
    """The interval of full lists, which find objects whose deletion the watch missed. [s]"""
    first_retry_seconds: float = 1.0
    """Pause after a failed write; it doubles with each further failure of the same node. [s]"""
    longest_retry_seconds: float = 30.0
    """Longest such pause. [s]"""
    write_burst: int = 5
    """The burst of writes to one Node; a decrease is never delayed."""
    write_refill_seconds: float = 10.0
    """After these writes, one more may follow after this long. [s]"""


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The admission webhook that refuses a wrong ConfigMap; names are those of the chart."""

    listen: str = setting("", flag="webhook-listen", kind=_ADDRESS, shown="no webhook")
    """host:port at which API servers have edits of the ConfigMap reviewed."""
    certificates: str = setting("self", flag="webhook-certificates", kind=choice("self", "cert-manager", metavar="WHO"))
    """The issuer of the webhook's certificates: ``self`` (the replica that leads) or ``cert-manager``."""
    service_name: str = "headroom-manager-webhook"
    """Service by which API servers call it, in the manager's namespace."""
    secret_name: str = "headroom-manager-webhook-tls"  # noqa: S105 - a name
    """Secret with the certificate, in the manager's namespace."""
    configuration_name: str = "headroom-colocation-config"
    """ValidatingWebhookConfiguration in which API servers find the authority to trust."""
    pods_configuration_name: str = setting("", flag="webhook-pods-configuration", kind=NAME, shown="none")
    """MutatingWebhookConfiguration that sends new pods of Mid namespaces."""
    profiles_configuration_name: str = setting("", flag="webhook-profiles-configuration", kind=NAME, shown="none")
    """MutatingWebhookConfiguration that gets a webhook for each ClusterColocationProfile."""
    poll_seconds: float = 10.0
    """The interval at which the Secret is read. [s]"""
    first_poll_seconds: float = 1.0
    """The first interval, at the start and before there is a certificate to serve; it doubles each time. [s]"""
    settle_seconds: float = 5.0
    """Time for API servers to learn of a new authority before a certificate of it is served. [s]"""


@dataclass(frozen=True, slots=True)
class Settings:
    """General."""

    kubeconfig: str | None = setting(
        None, flag="kubeconfig", kind=FILE, shown="the pod's service account, else $KUBECONFIG or ~/.kube/config"
    )
    """Login to the API server."""
    namespace: str = setting(
        DEFAULT_NAMESPACE,
        flag="namespace",
        kind=NAME,
        shown=f"$POD_NAMESPACE, else {DEFAULT_NAMESPACE}",
        variables=("POD_NAMESPACE",),
    )
    """Namespace of the ConfigMap and the Lease."""
    config_name: str = setting(CONFIG_MAP_NAME, flag="config-name", kind=_CONFIG_NAME)
    """Name of the ConfigMap."""
    listen: str = setting(":8080", flag="listen", kind=Kind("ADDRESS", str))
    """host:port of /metrics, /healthz, /readyz and /livez; an empty host means all."""
    ui_listen: str = setting("", flag="ui-listen", kind=_ADDRESS, shown="no page")
    """host:port of the web page /ui, which is read-only and needs no login, so loopback is best: 127.0.0.1:8081."""
    leader_elect: bool = setting(False, flag="leader-elect", kind=SWITCH)
    """Take part in leader election; needed with more than one replica."""
    create_priority_classes: bool = setting(False, flag="create-priority-classes", kind=SWITCH)
    """Create the missing PriorityClasses of the bands when this replica begins to lead."""
    exclude_nodes: NodeFilter = setting(
        flag="exclude-nodes", kind=_SELECTOR, factory=NodeFilter, shown=node_filter.DEFAULT
    )
    """Label selectors, as of kubectl -l and separated by semicolons, of nodes that get no NodeMetric and publish
    nothing, such as virtual ones. A node that any of them selects is excluded; empty: none."""
    log_format: str = setting("text", flag="log-format", kind=choice(*logs.FORMS, metavar="FORMAT"))
    """Form of the log on standard error: ``text`` or ``json``, one event per line."""
    log_level: str = setting("info", flag="log-level", kind=choice(*logs.LEVELS, metavar="LEVEL"))
    """The least severe message that is logged: ``debug``, ``info``, ``warning`` or ``error``."""
    timing: TimingSettings = field(default_factory=TimingSettings)
    """Speed."""
    webhook: WebhookSettings = field(default_factory=WebhookSettings)
    """Admission webhook."""
    last_good_name: str = LAST_GOOD_NAME
    """ConfigMap in which the last good configuration outlives a restart."""
    identity: str = ""
    """Name of this replica in the Lease; must differ between replicas."""

    @property
    def user_agent(self) -> str:
        return f"headroom-manager ({self.identity})" if self.identity else "headroom-manager"


def load(arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from the command line, else from the environment, else the defaults.

    Raises:
        WrongSetting: one of them cannot be used.
        SystemExit: `--help`.
    """
    environment = os.environ if environment is None else environment
    epilog = "Every flag can also be set in the environment: --log-level as HEADROOM_MANAGER_LOG_LEVEL; a flag wins."
    settings, _ = options.load(Settings, PROG, arguments, environment, description=ABOUT, epilog=epilog)
    host = environment.get("POD_NAME") or socket.gethostname()
    return replace(settings, identity=f"{host}_{secrets.token_hex(4)}")
