"""The inputs of `explain pod`: the pod and all objects that decide about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from crds.names import LABEL_PRIORITY_CLASS, MID_CPU, MID_MEMORY
from crds.predict_policy import with_defaults
from crds.priority import PriorityBand, kubernetes_qos, requests_mid, tier
from crds.quantity import QuantityError, milli_value, value
from headroom.cluster.pod import is_terminal, pod_key, pod_limits, pod_requests
from kubectl_headroom.quota.explanation import Explanation as QuotaExplanation
from kubectl_headroom.quota.reading import QuotaSnapshot
from kubectl_headroom.simulate.profile import SelectedProfile
from kubectl_headroom.simulate.simulation import Outcome, Simulation
from kubectl_headroom.top.nodes import published
from manager.api import Amount, age
from manager.api import Explanation as NodeExplanation

Json = Mapping[str, Any]


class State(StrEnum):
    """The state of a pod."""

    WAITS = "waits"  # no node was found for it yet
    GATED = "gated"  # scheduling gates block it
    STARTS = "starts"  # it has a node, and does not run yet
    RUNS = "runs"  # it runs
    TERMINATING = "terminating"  # it is being deleted
    ENDED = "ended"  # it has ended


class History(StrEnum):
    """The basis of a pod in its node's prediction."""

    WARM = "warm"  # predicted from its history
    COLD = "cold"  # its request: it was not watched for long enough
    UNKNOWN = "unknown"  # not in the report


@dataclass(slots=True)
class MidNodes:
    """Which nodes have Mid resources, counted object by object."""

    nodes: int = 0  # all nodes
    publishing: int = 0  # those that have any
    reasons: dict[str, list[str]] = field(default_factory=dict)
    """Reason of the condition MidPublished -> the nodes with it."""
    messages: dict[str, str] = field(default_factory=dict)  # the same word -> the sentence of the first of these nodes

    def put_node(self, node: Json) -> None:
        """Count a Node."""
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        self.nodes += 1
        self.publishing += any(value(allocatable.get(name, 0)) > 0 for name in (MID_CPU, MID_MEMORY))

    def put_node_metric(self, metric: Json) -> None:
        """Record a node's condition MidPublished."""
        condition = published(metric)
        if condition.get("reason"):
            reason = str(condition["reason"])
            self.reasons.setdefault(reason, []).append(str(metric["metadata"]["name"]))
            self.messages.setdefault(reason, str(condition.get("message") or ""))

    @property
    def commonest(self) -> str:
        """The most frequent reason of the nodes; empty without any from the manager."""
        return max(self.reasons, key=lambda reason: len(self.reasons[reason]), default="")


@dataclass(frozen=True, slots=True)
class PodSnapshot:
    """A pod at one moment."""

    pod: Json  # the pod
    now: float  # when it was read [unix s]
    node: NodeExplanation | None = None
    """Its node's Mid resources and report; None where it has no node, or that is gone."""
    quota: QuotaExplanation | None = None  # the decision of quotas; None for a pod that has ended
    quotas: QuotaSnapshot | None = None  # what that was evaluated by
    simulation: Simulation | None = None
    """The plugins' results now, as if it were pending; None of a pod that has ended."""
    chosen: SelectedProfile | None = None  # the profile of these plugins
    mid_nodes: MidNodes | None = None  # which nodes have Mid resources; None of a pod that has ended
    notes: tuple[str, ...] = field(default=())  # what could not be read
    denied: tuple[str, ...] = ()  # the kinds that the login may not read
    own_quotas: tuple[str, ...] = ()  # a sentence about each resource of the namespace's quotas, where some are denied

    @property
    def key(self) -> str:
        return pod_key(self.pod)

    @property
    def spec(self) -> Json:
        return self.pod.get("spec") or {}

    @property
    def status(self) -> Json:
        return self.pod.get("status") or {}

    @property
    def node_name(self) -> str:
        """Return where it is bound; empty: nowhere."""
        return str(self.spec.get("nodeName") or "")

    @property
    def state(self) -> State:
        if is_terminal(self.pod):
            return State.ENDED
        if (self.pod.get("metadata") or {}).get("deletionTimestamp"):
            return State.TERMINATING
        if not self.node_name:
            return State.GATED if self.spec.get("schedulingGates") else State.WAITS
        return State.RUNS if self.status.get("phase") == "Running" else State.STARTS

    @property
    def band(self) -> PriorityBand:
        return tier(self.pod)

    @property
    def band_reason(self) -> str:
        labels = (self.pod.get("metadata") or {}).get("labels") or {}
        if self.is_mid:
            return "it requests Mid resources"
        if LABEL_PRIORITY_CLASS in labels:
            return f"label {LABEL_PRIORITY_CLASS}={labels[LABEL_PRIORITY_CLASS]}"
        if self.spec.get("priorityClassName"):
            return f"PriorityClass {self.spec['priorityClassName']}, priority {self.spec.get('priority') or 0}"
        return f"QoS class {kubernetes_qos(self.pod)}, and neither a label nor a PriorityClass"

    @property
    def is_mid(self) -> bool:
        return requests_mid(self.pod)

    @property
    def requested(self) -> Amount:
        """Its requests; of a Mid pod its Mid resources."""
        requests = self._requests()
        if self.is_mid:
            return Amount(value(requests.get(MID_CPU, 0)), value(requests.get(MID_MEMORY, 0)))
        return Amount(milli_value(requests.get("cpu", 0)), value(requests.get("memory", 0)))

    @property
    def limits(self) -> Amount:
        """Its limits; None without one."""
        try:
            result = pod_limits(self.pod)
        except QuantityError:  # the API server admits no such pod
            return Amount()
        if self.is_mid:
            cpu, memory = result.get(MID_CPU), result.get(MID_MEMORY)
            return Amount(None if cpu is None else value(cpu), None if memory is None else value(memory))
        return Amount.of(result)

    def _requests(self) -> Mapping[str, Any]:
        try:
            return pod_requests(self.pod)
        except QuantityError:  # as above
            return {}

    @property
    def used(self) -> Amount:
        """Mean over the reporting window; None before its node has reported it."""
        pods = self.node.report.pods if self.node is not None else None
        return (pods or {}).get(self.key, Amount())

    @property
    def age_seconds(self) -> float | None:
        """Since kubelet took it; None: it has not. [s]"""
        return age(str(self.status.get("startTime") or ""), self.now)

    @property
    def history(self) -> History:
        texts = self.node.prediction.get("pods") if self.node is not None else None
        if not isinstance(texts, Mapping) or self.band is not PriorityBand.PROD:
            return History.UNKNOWN
        named = texts.get("coldNames") or ()
        if self.key in named:
            return History.COLD
        everybody_is_named = len(named) == (texts.get("cold") or 0)
        return History.WARM if everybody_is_named and self.used != Amount() else History.UNKNOWN

    @property
    def held_back(self) -> bool:
        """Return whether its node reports that memory.high or swap keeps its memory usage below its need."""
        pods = self.node.prediction.get("pods") if self.node is not None else None
        return isinstance(pods, Mapping) and self.key in (pods.get("heldBackNames") or ())

    @property
    def cold_start_seconds(self) -> int:
        """Return how long a pod must be watched on its node before its history counts. [s]"""
        policy = self.node.strategy.strategy.node_predict_policy if self.node is not None else None
        return with_defaults(policy).cold_start_period_seconds or 0

    @property
    def would_be_evicted(self) -> bool:
        """Return whether a deficit of Mid resources on its node would have it evicted, if it lasts."""
        eviction = self.node.eviction if self.node is not None else None
        return eviction is not None and any(victim.key == self.key for victim in eviction.selection.victims)

    @property
    def outcome(self) -> Outcome | None:
        outcomes = self.simulation.outcomes if self.simulation is not None else ()
        return next((outcome for outcome in outcomes if outcome.node == self.node_name), None)

    def condition(self, kind: str) -> Json:
        """Return a condition of the pod; empty without one of that kind."""
        for condition in self.status.get("conditions") or ():
            if condition.get("type") == kind:
                return dict(condition)
        return {}
