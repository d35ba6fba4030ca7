"""The comparisons of LoadAwareScheduling on each node, and their text."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np

from crds.quantity import short_bytes, short_milli_cores
from scheduler_plugins.plugins.load_aware_arguments import LoadAwareArguments
from scheduler_plugins.snapshot.arrays import BoolArray, IntArray, Nodes
from scheduler_plugins.snapshot.pod import PodRequest

_NAME: Final = "LoadAwareScheduling"


class Group(IntEnum):
    """Which of the exclusive groups of thresholds evaluates a pod on a node."""

    USAGE = 0  # `usageThresholds`, against the usage of the node
    AGGREGATED = 1  # `aggregated.usageThresholds`, against a statistic over a window
    PREDICTED = 2  # `usageThresholds`, against the predicted peak of the node
    PROD = 3  # `prodUsageThresholds`, against what Prod pods use

    @property
    def argument(self) -> str:
        argument_names = {Group.AGGREGATED: "aggregated.usageThresholds", Group.PROD: "prodUsageThresholds"}
        return argument_names.get(self, "usageThresholds")

    @property
    def compares(self) -> str:
        """The compared amount, as a word for programs."""
        return ("nodeUsage", "aggregatedUsage", "predictedPeak", "prodUsage")[self]

    def reason(self, resource: str) -> str:
        kind = {Group.AGGREGATED: "aggregated ", Group.PREDICTED: "predicted "}.get(self, "")
        return f"node(s) {resource} {kind}usage exceed threshold"


@dataclass(frozen=True, slots=True)
class Account:
    """The numbers of the filter for one pod."""

    by_prod: BoolArray  # where the Prod group evaluates, shape (N,)
    aggregated: BoolArray  # where the aggregated group evaluates, shape (N,)
    by_peak: BoolArray  # where the usage group evaluates by the predicted peak, shape (N,)
    limit: IntArray  # the thresholds, shape (N, R); 0: not checked. [%]
    load: IntArray  # usage with estimates, including the pod's, shape (N, R). [per resource of the load rules]
    percent: IntArray  # the same in percent of allocatable, shape (N, R)
    over: BoolArray  # where it is known to be more than the threshold, shape (N, R)
    checked: BoolArray  # where there are a threshold and a report of an agent, shape (N,)
    expired: BoolArray  # where the report is too old, and that matters, shape (N,)
    known: BoolArray  # where there is a usage to compare, shape (N, R)

    def groups(self) -> IntArray:
        chosen = [self.by_prod, self.aggregated, self.by_peak]
        return np.select(chosen, [Group.PROD, Group.AGGREGATED, Group.PREDICTED], Group.USAGE).astype(np.int64)


def explanation(
    args: LoadAwareArguments, pod: PodRequest, nodes: Nodes, account: Account, scores: IntArray
) -> list[Mapping[str, Any]]:
    return [{**dict(_of_node(args, pod, nodes, account, row)), "score": int(scores[row])} for row in range(len(nodes))]


def _of_node(
    args: LoadAwareArguments, pod: PodRequest, nodes: Nodes, account: Account, row: int
) -> Iterator[tuple[str, Any]]:
    record, group = nodes.tables[_NAME].record(row), Group(int(account.groups()[row]))
    yield "compares", group.compares
    yield "thresholds", group.argument
    in_flight = (nodes.in_flight_prod if group is Group.PROD else nodes.in_flight)[row]
    for index, resource in enumerate(args.resources):
        unit = {"cpu": "Milli", "memory": "Bytes"}.get(resource, "")
        expected = int(in_flight[index]) + pod.estimate[index]
        yield (
            resource,
            {
                f"allocatable{unit}": int(record["allocatable"][index]),
                f"inUse{unit}": int(account.load[row, index]) - expected,
                f"inFlight{unit}": int(in_flight[index]),
                f"pod{unit}": pod.estimate[index],
                "usagePercent": int(account.percent[row, index]),
                "thresholdPercent": int(account.limit[row, index]),
            },
        )
    yield from _ages(args, record, nodes.now)
    notes = list(_notes(args, pod, record, account, row))
    if notes:
        yield "notes", notes
    binding = _binding(args, pod, nodes, account, row)
    if binding:
        yield "binding", binding


def _ages(args: LoadAwareArguments, record: Any, now: float) -> Iterator[tuple[str, float]]:  # noqa: ANN401 - a record
    if np.isfinite(record["updated"]):
        yield "reportAgeSeconds", round(now - float(record["updated"]), 3)
    if args.use_prediction and np.isfinite(record["predicted"]):
        yield "predictionAgeSeconds", round(now - float(record["predicted"]), 3)


def _notes(
    args: LoadAwareArguments,
    pod: PodRequest,
    record: Any,  # noqa: ANN401 - a record
    account: Account,
    row: int,
) -> Iterator[str]:
    if pod.of_daemon_set:
        yield "pods of a DaemonSet are not refused"
    if not record["reported"]:
        yield "the node has no NodeMetric of an agent: nothing is checked, and the score is 0"
        return
    if not account.limit[row].any():
        yield "no threshold holds here: nothing is checked, not even the age of the report"
    unknown = [name for name, known in zip(args.resources, account.known[row], strict=True) if not known]
    if unknown and not account.known[row][[resource in {"cpu", "memory"} for resource in args.resources]].any():
        yield "the NodeMetric has no usage of the node: nothing is checked, and the score is 0"
    elif unknown:
        named = " and ".join(unknown)
        yield f"the NodeMetric has no {named} usage: that is not checked, and the score is 0"
    if args.use_prediction and not account.by_peak[row]:
        yield _why_not_predicted(args, record, account, row)


def _why_not_predicted(args: LoadAwareArguments, record: Any, account: Account, row: int) -> str:  # noqa: ANN401
    if account.by_prod[row]:
        return "prodUsageThresholds compare the measured usage of Prod pods: usePrediction is about the whole node"
    if account.aggregated[row]:
        return "the node's annotation sets an aggregated usage, which replaces the prediction"
    if np.isfinite(record["predicted"]):
        limit = args.prediction_expiration_seconds
        return f"the prediction is older than predictionExpirationSeconds ({limit}): the measured usage is compared"
    return "the node reports no prediction that can be acted on: the measured usage is compared"


def _binding(args: LoadAwareArguments, pod: PodRequest, nodes: Nodes, account: Account, row: int) -> str:
    """The limit that refuses the node, with the numbers against it; empty when it passes."""
    if pod.of_daemon_set or not account.checked[row]:
        return ""
    if account.expired[row]:
        if args.enable_schedule_when_node_metrics_expired is not False:
            return ""
        age, limit = nodes.now - float(nodes.tables[_NAME]["updated"][row]), args.node_metric_expiration_seconds
        return f"the NodeMetric is {age:.0f} s old, nodeMetricExpirationSeconds is {limit}"
    if not account.over[row].any():
        return ""
    index, group = int(account.over[row].argmax()), Group(int(account.groups()[row]))
    resource = args.resources[index]
    in_flight = int((nodes.in_flight_prod if group is Group.PROD else nodes.in_flight)[row, index])
    expected = in_flight + pod.estimate[index]
    used = int(account.load[row, index]) - expected
    total = int(nodes.tables[_NAME]["allocatable"][row, index])
    kind = ("in use", "in use by the aggregate", "predicted at the peak", "in use by Prod pods")[group]
    return (
        f"{resource}: an estimate of {_amount(resource, used)} of {_amount(resource, total)} {kind}, "
        f"new pods included, and {_amount(resource, expected)} expected are {int(account.percent[row, index])} % of "
        f"allocatable, {group.argument}.{resource} is {int(account.limit[row, index])} %"
    )


def _amount(resource: str, amount: int) -> str:
    return {"cpu": short_milli_cores, "memory": short_bytes}.get(resource, str)(amount)
