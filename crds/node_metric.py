"""NodeMetric `slo.koordinator.sh/v1alpha1`: the usage of a node, its system and its pods, and the predicted usage.

Field names are Koordinator's; `predictPolicy`, `prediction` and `conditions` are ours. Times are RFC 3339
texts, durations Go durations ("5m0s"), amounts Kubernetes quantities.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from crds.codec import JSON_NAME, Part, QuantityText
from crds.meta import Condition, ObjectMeta
from crds.predict_policy import PredictPolicy

GROUP: Final = "slo.koordinator.sh"
VERSION: Final = "v1alpha1"
PLURAL: Final = "nodemetrics"

WITHOUT_PAGE_CACHE: Final = "usageWithoutPageCache"
WITH_PAGE_CACHE: Final = "usageWithPageCache"
WITH_HOT_PAGE_CACHE: Final = "usageWithHotPageCache"
LONGEST_AGGREGATE_SECONDS: Final = 1800
"""The longest window of averages: every sample of every pod in it is read for each report. [s]"""
LONGEST_DURATION_SECONDS: Final = 7 * 86400
"""The longest window of percentiles; those above `LONGEST_AGGREGATE_SECONDS` are of 1-minute averages. [s]"""
MOST_DURATIONS: Final = 10
"""So many windows of percentiles at most."""
MEMORY_COLLECT_POLICIES: Final = (WITHOUT_PAGE_CACHE, WITH_PAGE_CACHE, WITH_HOT_PAGE_CACHE)
"""The memory that counts as used."""

AGGREGATIONS: Final = ("avg", "p50", "p90", "p95", "p99", "stdev")
"""The statistics of a window; `stdev` is ours."""
CLASSES: Final = ("node", "sys", "prod", "mid", "batch", "free")
"""The classes of `status.prediction.classes`; prod holds the pods without a band too."""


@dataclass(frozen=True, slots=True)
class ResourceMap(Part):
    """Amounts per resource name."""

    resources: Mapping[str, QuantityText] | None = None
    """Resource name -> quantity."""
    devices: tuple[Mapping[str, Any], ...] | None = None
    """Devices (GPUs …) as Koordinator reports them; we pass them through."""


@dataclass(frozen=True, slots=True)
class NodeAggregatePolicy(Part):
    """Which windows are reported as percentiles."""

    durations: tuple[str, ...] | None = None
    """Windows as Go durations."""


@dataclass(frozen=True, slots=True)
class MetricCollectPolicy(Part):
    """How the agent measures and reports."""

    aggregate_duration_seconds: int | None = None
    """Window of the averages. [s]"""
    report_interval_seconds: int | None = None
    """Time between two full reports. [s]"""
    node_aggregate_policy: NodeAggregatePolicy | None = None
    """Windows of the percentiles."""
    node_memory_collect_policy: str | None = None
    """A value of `MEMORY_COLLECT_POLICIES`."""


@dataclass(frozen=True, slots=True)
class NodeMetricSpec(Part):
    """The settings that the manager requests of the agent."""

    metric_collect_policy: MetricCollectPolicy | None = None
    """Measuring and reporting."""
    predict_policy: PredictPolicy | None = None
    """Predicting."""
    workload_history: Mapping[str, Mapping[str, QuantityText]] | None = None
    """Id of a workload with cold pods here (`crds.workload_history`) -> its highest usage per pod on any node."""


@dataclass(frozen=True, slots=True)
class AggregatedUsage(Part):
    """Statistics of one window."""

    usage: Mapping[str, ResourceMap] | None = None
    """Statistic (`AGGREGATIONS`) -> amounts; an empty one means too few samples."""
    duration: str | None = None
    """The window as a Go duration."""


@dataclass(frozen=True, slots=True)
class NumaUsage(Part):
    """Usage of one NUMA node, as Koordinator reports it."""

    numa_node_id: int | None = field(default=None, metadata={JSON_NAME: "numaNodeID"})
    """Number of the NUMA node."""
    node_usage: ResourceMap | None = None
    """Everything on it."""
    system_usage: ResourceMap | None = None
    """The usage of the node beyond its pods."""


@dataclass(frozen=True, slots=True)
class NodeUsage(Part):
    """Usage of the node as a whole (`status.nodeMetric`)."""

    node_usage: ResourceMap | None = None
    """Everything, mean over the window."""
    system_usage: ResourceMap | None = None
    """The usage beyond the pods, mean over the window."""
    aggregated_node_usages: tuple[AggregatedUsage, ...] | None = None
    """Statistics of everything."""
    aggregated_system_usages: tuple[AggregatedUsage, ...] | None = None
    """Statistics of the usage beyond the pods."""
    numa_usages: tuple[NumaUsage, ...] | None = None
    """By NUMA node."""


@dataclass(frozen=True, slots=True)
class PodMetric(Part):
    """Usage of one pod."""

    name: str | None = None
    """Name of the pod."""
    namespace: str | None = None
    """Namespace of the pod."""
    pod_usage: ResourceMap | None = None
    """Mean over the window."""
    priority: str | None = None
    """Band (`crds.priority.PriorityBand`)."""
    qos: str | None = None
    """QoS class (`crds.priority.QoS`)."""
    extensions: Mapping[str, Any] | None = None
    """Third-party content."""


@dataclass(frozen=True, slots=True)
class HostApplicationMetric(Part):
    """Usage of an application outside of Kubernetes, as Koordinator reports it."""

    name: str | None = None
    """Name of the application."""
    usage: ResourceMap | None = None
    """Mean over the window."""
    priority: str | None = None
    """Band."""
    qos: str | None = None
    """QoS class."""


@dataclass(frozen=True, slots=True)
class ProdMetric(Part):
    """An amount for the Prod band (`prodReclaimableMetric`, `prodPeakMetric`)."""

    resource: ResourceMap | None = None
    """The amounts."""


@dataclass(frozen=True, slots=True)
class Evidence(Part):
    """The amount of history behind a prediction."""

    samples: int | None = None
    """Training samples."""
    span_seconds: int | None = None
    """Observed time. [s]"""


@dataclass(frozen=True, slots=True)
class ClassPrediction(Part):
    """Usage, moments and predicted peak of one class of pods, of the node, or of the system."""

    name: str
    """A value of `CLASSES`."""
    usage: Mapping[str, QuantityText] | None = None
    """Mean over the reporting window; the same ticks for all classes."""
    mean: Mapping[str, QuantityText] | None = None
    """Decayed mean."""
    stdev: Mapping[str, QuantityText] | None = None
    """Decayed standard deviation."""
    peak: Mapping[str, QuantityText] | None = None
    """Predicted peak, margin and cold pods included."""
    evidence: Evidence | None = None
    """The history behind it."""


@dataclass(frozen=True, slots=True)
class PredictedPods(Part):
    """The number of pods with and without enough history."""

    warm: int | None = None
    """Pods predicted from history."""
    cold: int | None = None
    """Pods counted at their request."""
    cold_names: tuple[str, ...] | None = None
    """Some of the cold ones, "namespace/name"; at most 10."""
    by_history: int | None = None
    """Cold pods counted at the usage of their workload on other nodes; absent where there is none."""
    by_history_workloads: tuple[str, ...] | None = None
    """Some of these workloads, "namespace/Kind/name"; at most 10."""
    held_back_names: tuple[str, ...] | None = None
    """Some of those that memory.high or swap keeps below their need of memory; at most 10."""


@dataclass(frozen=True, slots=True)
class PolicyInForce(Part):
    """The model that made the prediction."""

    model: str | None = None
    """Name of the model."""
    parameters: Mapping[str, Any] | None = None
    """Its parameters."""
    of: tuple[Mapping[str, Any], ...] | None = None
    """The listed models of `max`."""
    cpu: Mapping[str, Any] | None = None
    """Overrides for CPU."""
    memory: Mapping[str, Any] | None = None
    """Overrides for memory."""


@dataclass(frozen=True, slots=True)
class ReclaimableInputs(Part):
    """The inputs of Reclaimable; a resource is absent where the model has a rule of its own."""

    requested: Mapping[str, QuantityText] | None = None
    """Requests of the Prod pods; of the warm ones reclaimRatioPercent."""
    prod_peak: Mapping[str, QuantityText] | None = None
    """Predicted peak of the Prod pods, without the system."""
    system_extra: Mapping[str, QuantityText] | None = None
    """Predicted peak of the system beyond the node's reservation."""
    slack: Mapping[str, QuantityText] | None = None
    """Allocatable that no Prod pod requested; it covers the system's extra first."""


@dataclass(frozen=True, slots=True)
class Summary(Part):
    """The report for people who run `kubectl get nodemetrics`: rounded texts, never read by programs."""

    memory: str | None = None
    """Memory in use, such as "20.1Gi"."""
    prod_peak: str | None = None
    """CPU and memory of `prodPeakMetric`: "5900m/19Gi"."""
    reclaimable: str | None = None
    """CPU and memory of `prodReclaimableMetric`: "4/3Gi"."""


@dataclass(frozen=True, slots=True)
class ExclusiveCpus(Part):
    """CPUs that the node's CPU manager gave to containers for themselves."""

    cpus: str | None = None
    """Their numbers as a list: "0-3,8"."""
    usage: Mapping[str, QuantityText] | None = None
    """Mean usage of these CPUs over the reporting window, under the name cpu."""


@dataclass(frozen=True, slots=True)
class Prediction(Part):
    """`status.prediction`: ours."""

    time: str | None = None
    """When it was last reported, fully or fast."""
    policy: PolicyInForce | None = None
    """The policy in force."""
    classes: tuple[ClassPrediction, ...] | None = None
    """An entry for each of `CLASSES`."""
    pods: PredictedPods | None = None
    """Warm and cold pods."""
    reclaimable: ReclaimableInputs | None = None
    """The inputs of `prodReclaimableMetric`."""
    summary: Summary | None = None
    """The report for people."""
    exclusive_cpus: ExclusiveCpus | None = field(default=None, metadata={JSON_NAME: "exclusiveCPUs"})
    """CPUs that Mid pods cannot use; absent where there are none, or it is unknown."""


@dataclass(frozen=True, slots=True)
class ShadowAccount(Part):
    """The Mid amounts that shadow mode would have published; kept by the manager, see `crds.shadow_accounts`."""

    since: str | None = None
    """When the account began."""
    time: str | None = None
    """When it was last written; every ten to fifteen minutes."""
    observed_seconds: int | None = None
    """For how long reports could evaluate what would have been published. [s]"""
    offered: Mapping[str, QuantityText] | None = None
    """The amount that the Node would have; absent when it would not have the resources."""
    mean: Mapping[str, QuantityText] | None = None
    """Mean of that amount over the observed time."""
    too_much_seconds: Mapping[str, int] | None = None
    """Resource -> the part of that time in which the amount exceeded the free resources. [s]"""
    worst_excess: Mapping[str, QuantityText] | None = None
    """By how much at worst."""


@dataclass(frozen=True, slots=True)
class NodeMetricStatus(Part):
    """The report of the agent, and the conditions of the manager."""

    update_time: str | None = None
    """Time of the full report; a fast report never touches it."""
    node_metric: NodeUsage | None = None
    """The node as a whole."""
    pods_metric: tuple[PodMetric, ...] | None = None
    """Each pod, by namespace and name."""
    host_application_metric: tuple[HostApplicationMetric, ...] | None = None
    """Applications outside of Kubernetes."""
    prod_reclaimable_metric: ProdMetric | None = None
    """The part of the Prod pods' requests that they will not use."""
    prod_peak_metric: ProdMetric | None = None
    """Predicted peak of Prod plus system, margin included: do not add either again."""
    prediction: Prediction | None = None
    """The prediction in full."""
    workloads: tuple[str, ...] | None = None
    """The usage of each workload with pods here, or with pods in the last 7 days (`crds.workload_history`)."""
    conditions: tuple[Condition, ...] | None = None
    """`Collecting` and `PredictionReady` of the agent, and those of the manager (`crds.names.MANAGER_CONDITIONS`)."""
    shadow: ShadowAccount | None = None
    """Not used: the account of shadow mode is in a ConfigMap."""


@dataclass(frozen=True, slots=True)
class NodeMetric(Part):
    """The object; cluster-scoped, named after its node."""

    API_VERSION: ClassVar[str] = f"{GROUP}/{VERSION}"
    KIND: ClassVar[str] = "NodeMetric"

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    """Name and versions."""
    spec: NodeMetricSpec = field(default_factory=NodeMetricSpec)
    """Written by the manager."""
    status: NodeMetricStatus | None = None
    """Written by the agent, but for the manager's conditions."""
