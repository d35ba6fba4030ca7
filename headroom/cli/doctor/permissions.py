"""Everything that doctor may read of the API server; the row of a check in `registry.py` says which it reads."""

from dataclasses import dataclass
from typing import Final

from crds.elastic_quota import GROUP as QUOTA_GROUP
from crds.node_metric import GROUP, PLURAL


@dataclass(frozen=True, slots=True)
class Permission:
    """A verb on a kind, as a rule of an RBAC role grants it."""

    verb: str  # get, list or create
    group: str  # API group; empty for the core
    version: str  # version that is asked for; it is no part of a rule
    resource: str  # plural name of the kind
    namespaced: bool = False  # whether it is asked for in Headroom's namespace alone
    names: tuple[str, ...] = ()  # the only objects that are asked for; none: any

    def path(self, namespace: str) -> str:
        """Path of the collection; the namespace is Headroom's."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.resource}" if self.namespaced else f"{root}/{self.resource}"

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


CRDS: Final = (f"{PLURAL}.{GROUP}", f"elasticquotas.{QUOTA_GROUP}")  # names of our CRDs
WEBHOOK: Final = "headroom-colocation-config"  # name of our ValidatingWebhookConfiguration
KOORDINATOR_WEBHOOKS: Final = ("koord-validating-webhook-configuration", "koord-mutating-webhook-configuration")
"""Names of Koordinator's: the validating one, and the mutating one."""
OWN_NODE_POLICY: Final = "headroom-agent-own-node"
"""Name of the ValidatingAdmissionPolicy that holds each agent to its own node, and of its binding."""
NODE_STATUS_POLICY: Final = "headroom-node-status"
"""Name of the one that holds the manager to Mid resources of Nodes, and of its binding."""
AGENTS_QUEUE: Final = "headroom-agents"  # name of the agents' FlowSchema, and of its PriorityLevelConfiguration

_ADMISSION: Final = ("admissionregistration.k8s.io", "v1")
_FLOW_CONTROL: Final = ("flowcontrol.apiserver.k8s.io", "v1")

NODES: Final = Permission("list", "", "v1", "nodes")
PODS: Final = Permission("list", "", "v1", "pods", namespaced=True)
NAMESPACES: Final = Permission("get", "", "v1", "namespaces")  # headroom's own
CONFIG_MAPS: Final = Permission("get", "", "v1", "configmaps", namespaced=True)
"""The colocation config, the last good one, and the scheduler's."""
LEASES: Final = Permission("list", "coordination.k8s.io", "v1", "leases", namespaced=True)
DEPLOYMENTS: Final = Permission("list", "apps", "v1", "deployments")  # of all namespaces: Koordinator's may be anywhere
DAEMON_SETS: Final = Permission("list", "apps", "v1", "daemonsets")  # of all namespaces
ENDPOINT_SLICES: Final = Permission("list", "discovery.k8s.io", "v1", "endpointslices", namespaced=True)
NETWORK_POLICIES: Final = Permission("list", "networking.k8s.io", "v1", "networkpolicies", namespaced=True)
PRIORITY_CLASSES: Final = Permission("list", "scheduling.k8s.io", "v1", "priorityclasses")
DEFINITIONS: Final = Permission("get", "apiextensions.k8s.io", "v1", "customresourcedefinitions", names=CRDS)
VALIDATING: Final = Permission(
    "get", *_ADMISSION, "validatingwebhookconfigurations", names=(WEBHOOK, KOORDINATOR_WEBHOOKS[0])
)
MUTATING: Final = Permission("get", *_ADMISSION, "mutatingwebhookconfigurations", names=(KOORDINATOR_WEBHOOKS[1],))
ADMISSION_POLICIES: Final = Permission(
    "get", *_ADMISSION, "validatingadmissionpolicies", names=(OWN_NODE_POLICY, NODE_STATUS_POLICY)
)
ADMISSION_BINDINGS: Final = Permission(
    "get", *_ADMISSION, "validatingadmissionpolicybindings", names=(OWN_NODE_POLICY, NODE_STATUS_POLICY)
)
FLOW_SCHEMAS: Final = Permission("get", *_FLOW_CONTROL, "flowschemas", names=(AGENTS_QUEUE,))
PRIORITY_LEVELS: Final = Permission("get", *_FLOW_CONTROL, "prioritylevelconfigurations", names=(AGENTS_QUEUE,))
NODE_METRICS: Final = Permission("list", GROUP, "v1alpha1", PLURAL)
REVIEWS: Final = Permission("create", "authorization.k8s.io", "v1", "subjectaccessreviews")
"""What the service accounts of the services may do. It writes nothing."""
