"""What each service account must be allowed, beside kube-scheduler's own roles. A test compares the chart."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from crds import shadow_accounts
from crds.elastic_quota import GROUP as QUOTA_GROUP
from crds.names import CONFIG_MAP_NAME, LAST_GOOD_NAME
from crds.node_metric import GROUP, PLURAL
from crds.priority import VALUES
from headroom.cli.doctor.objects import AGENT, MANAGER, SCHEDULER
from headroom.cli.doctor.permissions import WEBHOOK

_EVENTS: Final = "events.k8s.io"
_LEASES: Final = "coordination.k8s.io"
_WEBHOOK_SECRET: Final = "headroom-manager-webhook-tls"  # noqa: S105 - a name


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Verbs on a kind."""

    group: str  # API group; empty for the core
    resource: str  # plural name, with a subresource behind a slash
    verbs: str  # what is done, by spaces
    namespace: str = ""  # in this one alone; empty for everywhere
    name: str = ""  # this object alone; empty for any

    def resource_attributes(self) -> Iterator[Mapping[str, Any]]:
        """As `resourceAttributes` of a SubjectAccessReview, one for each verb."""
        resource, _, subresource = self.resource.partition("/")
        for verb in self.verbs.split():
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
    """How it is installed, as far as that decides about permissions."""

    namespace: str  # headroom's
    config_name: str = CONFIG_MAP_NAME  # name of the colocation ConfigMap
    certificates: str = "self"  # who makes the webhook's certificates: self, cert-manager, or empty for no webhook
    priority_classes: bool = True  # whether the manager creates them
    lease: str = SCHEDULER  # the scheduler's
    components: tuple[str, ...] = (AGENT, MANAGER, SCHEDULER)  # what of it is there


_AGENT: Final = (
    PolicyRule("", "pods", "list watch"),
    PolicyRule("", "nodes", "list watch"),
    PolicyRule(GROUP, PLURAL, "get"),
    PolicyRule(GROUP, f"{PLURAL}/status", "patch"),
    PolicyRule(_EVENTS, "events", "create patch", "default"),
)
_MANAGER: Final = (
    PolicyRule("", "nodes", "list watch"),
    PolicyRule("", "nodes/status", "patch"),
    PolicyRule("", "pods", "get list watch"),
    PolicyRule("", "pods/eviction", "create"),
    PolicyRule(_EVENTS, "events", "create patch"),
    PolicyRule(GROUP, PLURAL, "get list watch create patch delete"),
    PolicyRule(GROUP, f"{PLURAL}/status", "patch"),
)
_SCHEDULER: Final = (
    PolicyRule("", "nodes", "list watch"),
    PolicyRule("", "pods", "get list watch delete"),
    PolicyRule("", "pods/status", "patch"),
    PolicyRule("", "pods/eviction", "create"),
    PolicyRule("", "namespaces", "list watch"),
    PolicyRule(GROUP, PLURAL, "list watch"),
    PolicyRule("metrics.k8s.io", "nodes", "list"),
    PolicyRule(QUOTA_GROUP, "elasticquotas", "list watch"),
    PolicyRule(QUOTA_GROUP, "elasticquotas/status", "patch"),
    PolicyRule("policy", "poddisruptionbudgets", "list watch"),
    PolicyRule(_EVENTS, "events", "create patch"),
)
KUBE_SCHEDULER: Final = (
    PolicyRule("", "pods/binding", "create"),
    PolicyRule("", "persistentvolumeclaims", "list watch"),
)
"""A sample of what the cluster's own roles grant the scheduler: whether they are bound to it."""


def policy_rules(how: Installed) -> Mapping[str, Sequence[PolicyRule]]:
    """What each service account must be allowed, by how it is installed."""
    own = how.namespace
    every = {
        AGENT: _AGENT,
        MANAGER: (
            *_MANAGER,
            PolicyRule("", "configmaps", "get list watch patch", own, how.config_name),
            *(
                PolicyRule("", "configmaps", "get patch", own, each)
                for each in (LAST_GOOD_NAME, *shadow_accounts.NAMES)
            ),
            PolicyRule("", "configmaps", "create", own),
            PolicyRule(_LEASES, "leases", "create", own),
            PolicyRule(_LEASES, "leases", "get patch", own, MANAGER),
            *_certificates(how),
            *(
                PolicyRule("scheduling.k8s.io", "priorityclasses", "get create patch", name=band)
                for band in (VALUES if how.priority_classes else ())
            ),
        ),
        SCHEDULER: (*_SCHEDULER, PolicyRule(_LEASES, "leases", "get update", own, how.lease)),
    }
    return {component: every[component] for component in how.components}


def _certificates(how: Installed) -> Iterator[PolicyRule]:
    if how.certificates == "self":
        kind = "validatingwebhookconfigurations"
        yield PolicyRule("admissionregistration.k8s.io", kind, "get patch", name=WEBHOOK)
        yield PolicyRule("", "secrets", "get create patch delete", how.namespace, _WEBHOOK_SECRET)
    elif how.certificates:
        yield PolicyRule("", "secrets", "get", how.namespace, _WEBHOOK_SECRET)
