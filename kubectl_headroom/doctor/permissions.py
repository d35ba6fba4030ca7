"""Everything that doctor may read of the API server; the row of a check in `registry.py` names its reads."""

from dataclasses import dataclass
from typing import Final

from crds.cluster_colocation_profile import GROUP as PROFILE_GROUP
from crds.cluster_colocation_profile import PLURAL as PROFILE_PLURAL
from crds.cluster_colocation_profile import VERSION as PROFILE_VERSION
from crds.elastic_quota import GROUP as QUOTA_GROUP
from crds.node_metric import GROUP, PLURAL


@dataclass(frozen=True, slots=True)
class Permission:
    """A verb on a kind, as a rule of an RBAC role grants it."""

    verb: str  # get or list
    group: str  # API group; empty for the core
    version: str  # of the requests; it is no part of a rule
    resource: str  # plural name of the kind
    namespaced: bool = False  # whether only Headroom's namespace is read
    names: tuple[str, ...] = ()  # the only objects; none: any

    def path(self, namespace: str) -> str:
        """Path of the collection; the namespace is Headroom's."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.resource}" if self.namespaced else f"{root}/{self.resource}"

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


CRDS: Final = (f"{PLURAL}.{GROUP}", f"elasticquotas.{QUOTA_GROUP}", f"{PROFILE_PLURAL}.{PROFILE_GROUP}")
"""Names of our CRDs."""
WEBHOOK: Final = "headroom-colocation-config"  # name of our ValidatingWebhookConfiguration
PROFILES_WEBHOOK: Final = "headroom-colocation-profiles"  # name of our MutatingWebhookConfiguration of profiles
KOORDINATOR_WEBHOOKS: Final = ("koord-validating-webhook-configuration", "koord-mutating-webhook-configuration")
"""Names of Koordinator's: the validating one, and the mutating one."""
_ADMISSION: Final = ("admissionregistration.k8s.io", "v1")

NODES: Final = Permission("list", "", "v1", "nodes")
PODS: Final = Permission("list", "", "v1", "pods", namespaced=True)
ALL_PODS: Final = Permission("list", "", "v1", "pods")  # of all namespaces
NAMESPACES: Final = Permission("get", "", "v1", "namespaces")  # headroom's own
ALL_NAMESPACES: Final = Permission("list", "", "v1", "namespaces")  # those with the label of Mid namespaces
CONFIG_MAPS: Final = Permission("get", "", "v1", "configmaps", namespaced=True)
"""The colocation config, the last good one, and the scheduler's."""
LEASES: Final = Permission("list", "coordination.k8s.io", "v1", "leases", namespaced=True)
DEPLOYMENTS: Final = Permission("list", "apps", "v1", "deployments")  # of all namespaces: Koordinator's may be anywhere
DAEMON_SETS: Final = Permission("list", "apps", "v1", "daemonsets")  # of all namespaces
ENDPOINT_SLICES: Final = Permission("list", "discovery.k8s.io", "v1", "endpointslices", namespaced=True)
PRIORITY_CLASSES: Final = Permission("list", "scheduling.k8s.io", "v1", "priorityclasses")
DEFINITIONS: Final = Permission("get", "apiextensions.k8s.io", "v1", "customresourcedefinitions", names=CRDS)
VALIDATING: Final = Permission(
    "get", *_ADMISSION, "validatingwebhookconfigurations", names=(WEBHOOK, KOORDINATOR_WEBHOOKS[0])
)
MUTATING: Final = Permission(
    "get", *_ADMISSION, "mutatingwebhookconfigurations", names=(PROFILES_WEBHOOK, KOORDINATOR_WEBHOOKS[1])
)
PROFILES: Final = Permission("list", PROFILE_GROUP, PROFILE_VERSION, PROFILE_PLURAL)
NODE_METRICS: Final = Permission("list", GROUP, "v1alpha1", PLURAL)
