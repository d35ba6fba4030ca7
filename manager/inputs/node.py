"""A node: gathering its inputs from Kubernetes JSON."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from crds import names
from crds.colocation import ColocationStrategy
from headroom.cluster.cpu_list import count_cpus
from manager.inputs.amounts import UNKNOWN, Amounts, Measured, Resource, total
from manager.inputs.node_metric import NodeReport, ObservedAt, age_seconds
from manager.inputs.pod import PodInputs
from manager.inputs.reading import LONGEST_ANNOTATION, Json, Reader, get_path, known
from manager.inputs.strategy import StrategyInputs


@dataclass(frozen=True, slots=True)
class NodeInputs:
    """The inputs of a formula about one node."""

    name: str
    capacity: Measured  # `status.capacity`
    allocatable: Measured  # `status.allocatable`, or the raw-allocatable annotation where resources are amplified
    reservation: Amounts
    requests_above_mid: Amounts  # requests of the Running and Pending pods above Mid
    mid_requests: Amounts
    """`kubernetes.io/mid-*` requests of the Mid pods that the kubelet admitted and that have not ended."""
    mid_own: Amounts  # what Mid pods use of their requests: min(usage, requests)
    report: NodeReport | None  # the NodeMetric's status; `None` without one
    strategy: StrategyInputs
    report_age: float | None  # age of the full report; `None` if there never was one [s]
    prediction_age: float | None
    """Age of the prediction; as the report's for an agent that has no `status.prediction`. [s]"""
    problems: tuple[str, ...] = ()  # what could not be read, one sentence each


def from_objects(
    node: Json,
    node_metric: Json | NodeReport | None,
    pods: Iterable[Json | PodInputs],
    strategy: ColocationStrategy,
    now: float,
    observed_at: ObservedAt | None = None,
) -> NodeInputs:
    """Gather the inputs of one node from Kubernetes JSON. Pure.

    Args:
        node: the Node.
        node_metric: its NodeMetric (or its cached form), if there is one.
        pods: pods of the cluster or of the node, as JSON or already reduced; those of other nodes are left out.
        strategy: the node's strategy; absent fields take the default.
        now: the clock. [unix s]
        observed_at: when the report's times were observed to change; `None` for an observer that has just started.
    """
    name = str(get_path(node, "metadata", "name") or "")
    reduced = (pod if isinstance(pod, PodInputs) else PodInputs.from_object(pod) for pod in pods)
    here = [pod for pod in reduced if pod.node == name]
    report = node_metric if isinstance(node_metric, NodeReport | None) else NodeReport.from_object(node_metric)
    observed_at, read = observed_at or ObservedAt(), Reader()
    capacity = read.measured(get_path(node, "status", "capacity"), "status.capacity")
    allocatable, reservation = _allocatable(node, read), known(_reservation(node, read))
    mid_pods = [pod for pod in here if pod.holds_mid]
    mid_requests = total(pod.mid_requests for pod in mid_pods)
    report_age = prediction_age = None
    if report is not None:
        report_age = prediction_age = age_seconds(report.update_time, observed_at.report, now)
        if report.own_agent:
            prediction_age = age_seconds(report.prediction_time, observed_at.prediction, now)
    return NodeInputs(
        name=name,
        capacity=capacity,
        allocatable=allocatable,
        reservation=reservation,
        requests_above_mid=total(pod.requests for pod in here if pod.above_mid),
        mid_requests=mid_requests,
        mid_own=_mid_own(report, mid_pods, mid_requests),
        report=report,
        strategy=StrategyInputs.of(strategy),
        report_age=report_age,
        prediction_age=prediction_age,
        problems=(*read.problems, *(report.problems if report else ())),
    )


def _mid_own(report: NodeReport | None, mid_pods: list[PodInputs], mid_requests: Amounts) -> Amounts:
    if report is None:
        return Amounts()
    if report.own_agent:
        return _smaller(known(report.mid_usage), mid_requests)
    return total(_smaller(report.pod_usage.get(pod.key, Amounts()), pod.mid_requests) for pod in mid_pods)


def _smaller(used: Amounts, requested: Amounts) -> Amounts:
    return Amounts(min(used.cpu, requested.cpu), min(used.memory, requested.memory))


def _annotation(node: Json, name: str, read: Reader) -> Json:
    """The JSON object of an annotation; empty when it is absent or unusable."""
    text = str(get_path(node, "metadata", "annotations", name) or "")
    if not text:
        return {}
    if len(text) > LONGEST_ANNOTATION:
        read.problem(f"annotation {name}: longer than the {LONGEST_ANNOTATION} characters that are read; it is ignored")
        return {}
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if isinstance(data, Mapping):
        return data
    read.problem(f"annotation {name}: not a JSON object; it is ignored")
    return {}


def _allocatable(node: Json, read: Reader) -> Measured:
    """The raw allocatable of the annotation, for the resources that the Node has."""
    stated = read.measured(get_path(node, "status", "allocatable"), "status.allocatable")
    raw = read.measured(_annotation(node, names.ANNOTATION_RAW_ALLOCATABLE, read), names.ANNOTATION_RAW_ALLOCATABLE)
    amounts = (
        stated[resource] if stated[resource] is None or raw[resource] is None else raw[resource]
        for resource in Resource
    )
    return Measured(*amounts)


def reserved_by_annotation(node: Json) -> Measured:
    """Return the reservation of the annotation; unknown where it has no usable amount."""
    return _reservation(node, Reader())


def _reservation(node: Json, read: Reader) -> Measured:
    """The reservation annotation; named CPUs count whole and override its number of CPUs."""
    data = _annotation(node, names.ANNOTATION_NODE_RESERVATION, read)
    amounts = read.measured(data.get("resources"), names.ANNOTATION_NODE_RESERVATION)
    named = data.get("reservedCPUs")
    if not named:
        return amounts
    try:
        return Measured(count_cpus(str(named)) * 1000, amounts.memory)
    except ValueError as error:
        read.problem(f"annotation {names.ANNOTATION_NODE_RESERVATION}: reservedCPUs {error}; it is ignored")
        return UNKNOWN
