"""What each service account must be allowed, beside kube-scheduler's own roles. A test compares the chart."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from crds import shadow_accounts
from crds.elastic_quota import GROUP as QUOTA_GROUP
from crds.names import CONFIG_MAP_NAME, LAST_GOOD_NAME
from crds.node_metric import GROUP, PLURAL
from headroom.cli.doctor.objects import AGENT, MANAGER, SCHEDULER
from headroom.cli.doctor.rights import WEBHOOK

_EVENTS: Final = "events.k8s.io"
_LEASES: Final = "coordination.k8s.io"
_WEBHOOK_SECRET: Final = "headroom-manager-webhook-tls"  # noqa: S105 - a name


@dataclass(frozen=True, slots=True)
class Grant:
    """Verbs on a kind."""

    group: str  # API group; empty for the core
    resource: str  # plural name, with a subresource behind a slash
    verbs: tuple[str, ...]  # what is done
    namespace: str = ""  # in this one alone; empty for everywhere
    name: str = ""  # this object alone; empty for any

    def asked(self) -> Iterator[Mapping[str, Any]]:
        """As `resourceAttributes` of a SubjectAccessReview, one for each verb."""
        resource, _, subresource = self.resource.partition("/")
        for verb in self.verbs:
            yield {
                "verb": verb,
                "group": self.group,
                "resource": resource,
                "subresource": subresource,
                "namespace": self.namespace,
                "name": self.name,
            }


@dataclass(frozen=True, slots=True)
class Installed:
    """How it is installed, as far as that decides about rights."""

    namespace: str  # headroom's
    config_name: str = CONFIG_MAP_NAME  # name of the colocation ConfigMap
    pods_from: str = "api"  # where agents learn of their pods: api, kubelet or cgroups
    certificates: str = "self"  # who makes the webhook's certificates: self, cert-manager, or empty for no webhook
    leases: tuple[str, ...] = field(default=(SCHEDULER,))  # leases of the schedulers
    parts: tuple[str, ...] = (AGENT, MANAGER, SCHEDULER)  # what of it is there


def grants(how: Installed) -> Mapping[str, Sequence[Grant]]:
    """What each service account must be allowed.

    Args:
        how: how it is installed.
    """
    every = {AGENT: _agent, MANAGER: _manager, SCHEDULER: _scheduler}
    return {part: list(every[part](how)) for part in how.parts}


def _agent(how: Installed) -> Iterator[Grant]:
    if how.pods_from == "kubelet":
        yield Grant("", "nodes/pods", ("get",))
    elif how.pods_from == "api":
        yield Grant("", "pods", ("list", "watch"))
    yield Grant("", "nodes", ("list", "watch"))
    yield Grant(GROUP, PLURAL, ("get",))
    yield Grant(GROUP, f"{PLURAL}/status", ("patch",))
    yield Grant(_EVENTS, "events", ("create", "patch"), "default")


def _manager(how: Installed) -> Iterator[Grant]:
    own = how.namespace
    yield Grant("", "nodes", ("list", "watch"))
    yield Grant("", "nodes/status", ("patch",))
    yield Grant("", "pods", ("get", "list", "watch"))
    yield Grant("", "pods/eviction", ("create",))
    yield Grant(_EVENTS, "events", ("create", "patch"))
    yield Grant(GROUP, PLURAL, ("get", "list", "watch", "create", "patch", "delete"))
    yield Grant(GROUP, f"{PLURAL}/status", ("patch",))
    yield Grant("", "configmaps", ("get", "list", "watch", "patch"), own, how.config_name)
    for name in (LAST_GOOD_NAME, *shadow_accounts.NAMES):
        yield Grant("", "configmaps", ("get", "patch"), own, name)
    yield Grant("", "configmaps", ("create",), own)
    yield Grant(_LEASES, "leases", ("create",), own)
    yield Grant(_LEASES, "leases", ("get", "patch"), own, MANAGER)
    if how.certificates == "self":
        kind = "validatingwebhookconfigurations"
        yield Grant("admissionregistration.k8s.io", kind, ("get", "patch"), name=WEBHOOK)
        yield Grant("", "secrets", ("get", "create", "patch", "delete"), own, _WEBHOOK_SECRET)
    elif how.certificates:
        yield Grant("", "secrets", ("get",), own, _WEBHOOK_SECRET)


def _scheduler(how: Installed) -> Iterator[Grant]:
    yield Grant("", "nodes", ("list", "watch"))
    yield Grant("", "pods", ("get", "list", "watch", "delete"))
    yield Grant("", "pods/status", ("patch",))
    yield Grant("", "pods/eviction", ("create",))
    yield Grant("", "namespaces", ("list", "watch"))
    yield Grant("", "resourcequotas", ("list",))
    yield Grant(GROUP, PLURAL, ("list", "watch"))
    yield Grant("metrics.k8s.io", "nodes", ("list",))
    yield Grant(QUOTA_GROUP, "elasticquotas", ("list", "watch"))
    yield Grant(QUOTA_GROUP, "elasticquotas/status", ("patch",))
    yield Grant("policy", "poddisruptionbudgets", ("list", "watch"))
    yield Grant(_EVENTS, "events", ("create", "patch"))
    for lease in how.leases:
        yield Grant(_LEASES, "leases", ("get", "update"), how.namespace, lease)


KUBE_SCHEDULER: Final = (Grant("", "pods/binding", ("create",)), Grant("", "persistentvolumeclaims", ("list", "watch")))
"""A sample of what the cluster's own roles grant the scheduler: whether they are bound to it."""
