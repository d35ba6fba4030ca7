"""Everything that doctor reads of the API server: what is not listed here cannot be read by a check.

The ClusterRole of `helm test` grants just this, which a test compares.
"""

from dataclasses import dataclass
from typing import Final

from crds.elastic_quota import GROUP as QUOTA_GROUP
from crds.node_metric import GROUP, PLURAL


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a kind, as a rule of a role grants it."""

    verb: str  # get, list or create
    group: str  # API group; empty for the core
    version: str  # version that is asked for; it is no part of a rule
    resource: str  # plural name of the kind
    namespaced: bool = False  # whether it is asked for in Headroom's namespace alone
    names: tuple[str, ...] = ()  # the only objects that are asked for; none: any

    def path(self, namespace: str) -> str:
        """Path of the collection.

        Args:
            namespace: Headroom's.
        """
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

NODES: Final = Right("list", "", "v1", "nodes")
PODS: Final = Right("list", "", "v1", "pods", namespaced=True)
NAMESPACES: Final = Right("get", "", "v1", "namespaces")  # headroom's own
CONFIG_MAPS: Final = Right("get", "", "v1", "configmaps", namespaced=True)
"""The colocation config, the last good one, and the scheduler's."""
LEASES: Final = Right("list", "coordination.k8s.io", "v1", "leases", namespaced=True)
DEPLOYMENTS: Final = Right("list", "apps", "v1", "deployments")  # of all namespaces: Koordinator's may be anywhere
DAEMON_SETS: Final = Right("list", "apps", "v1", "daemonsets")  # of all namespaces
ENDPOINT_SLICES: Final = Right("list", "discovery.k8s.io", "v1", "endpointslices", namespaced=True)
NETWORK_POLICIES: Final = Right("list", "networking.k8s.io", "v1", "networkpolicies", namespaced=True)
PRIORITY_CLASSES: Final = Right("list", "scheduling.k8s.io", "v1", "priorityclasses")
DEFINITIONS: Final = Right("get", "apiextensions.k8s.io", "v1", "customresourcedefinitions", names=CRDS)
VALIDATING: Final = Right(
    "get", *_ADMISSION, "validatingwebhookconfigurations", names=(WEBHOOK, KOORDINATOR_WEBHOOKS[0])
)
MUTATING: Final = Right("get", *_ADMISSION, "mutatingwebhookconfigurations", names=(KOORDINATOR_WEBHOOKS[1],))
ADMISSION_POLICIES: Final = Right(
    "get", *_ADMISSION, "validatingadmissionpolicies", names=(OWN_NODE_POLICY, NODE_STATUS_POLICY)
)
ADMISSION_BINDINGS: Final = Right(
    "get", *_ADMISSION, "validatingadmissionpolicybindings", names=(OWN_NODE_POLICY, NODE_STATUS_POLICY)
)
FLOW_SCHEMAS: Final = Right("get", *_FLOW_CONTROL, "flowschemas", names=(AGENTS_QUEUE,))
PRIORITY_LEVELS: Final = Right("get", *_FLOW_CONTROL, "prioritylevelconfigurations", names=(AGENTS_QUEUE,))
NODE_METRICS: Final = Right("list", GROUP, "v1alpha1", PLURAL)
REVIEWS: Final = Right("create", "authorization.k8s.io", "v1", "subjectaccessreviews")
"""What the service accounts of the services may do. It writes nothing."""

READS: Final = (
    NODES,
    PODS,
    NAMESPACES,
    CONFIG_MAPS,
    LEASES,
    DEPLOYMENTS,
    DAEMON_SETS,
    ENDPOINT_SLICES,
    NETWORK_POLICIES,
    PRIORITY_CLASSES,
    DEFINITIONS,
    VALIDATING,
    MUTATING,
    ADMISSION_POLICIES,
    ADMISSION_BINDINGS,
    FLOW_SCHEMAS,
    PRIORITY_LEVELS,
    NODE_METRICS,
    REVIEWS,
)
"""All of it, but for what every login may do: `/version`, and asking about oneself (`selfsubjectaccessreviews`)."""

IF_ALLOWED: Final = (
    Right("get", "", "v1", "pods/proxy", namespaced=True),
    Right("patch", "", "v1", "configmaps", namespaced=True),
)
"""Used by whoever has the right anyway, which is asked first: an agent's own metrics, and an edit of the config that is
a dry run, to see whether the webhook answers. `helm test` has neither."""
