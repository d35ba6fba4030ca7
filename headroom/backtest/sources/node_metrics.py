"""Snapshots of NodeMetrics, kept over time: `kubectl get nodemetrics -o json` appended to a file every five minutes."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from crds.codec import CodecError, from_json
from crds.node_metric import NodeMetric, PodMetric
from crds.priority import PriorityBand
from crds.quantity import QuantityError, parse_quantity
from headroom.backtest.sources import Options, Progress, grid
from headroom.backtest.sources.documents import Json, objects
from headroom.backtest.sources.pod_lifetimes import Key, Measured, trace_of
from headroom.backtest.sources.pods import PODS_COMMAND, Pod, by_name, read_pods
from headroom.backtest.trace import Resource, Trace, TraceError

COMMAND: Final = "kubectl get nodemetrics -o json"
"""What writes a snapshot."""
_USUAL_SECONDS: Final = 300.0
_MOST_APART: Final = 2.0
_PROD: Final = frozenset({PriorityBand.PROD.value, PriorityBand.NONE.value})


class _Snapshots:
    """Usage from snapshots, added one NodeMetric at a time."""

    def __init__(self, options: Options, where: str) -> None:
        self.measured: dict[Resource, Measured] = {name: Measured(name, options, where) for name in options.resources}
        """Use of pods by name."""
        self.others: set[Key] = set()
        """Pods that the last report does not count as Prod."""
        self.times: dict[str, list[float]] = {}
        """When each node was reported. [seconds since 1970]"""
        self._seen: set[tuple[str, float]] = set()

    def take(self, item: Json, where: str) -> None:
        """Add one NodeMetric.

        Raises:
            TraceError: it is none.
        """
        try:
            found = from_json(NodeMetric, item)
        except CodecError as error:
            raise TraceError(f"{where}: a NodeMetric cannot be understood: {error}") from error
        node, status = found.metadata.name, found.status
        if not node or status is None or not status.update_time:
            return  # nothing was reported yet
        where = f"{where}: NodeMetric {grid.plain(node)}"
        reported = _moment(status.update_time, where)
        if (node, reported) in self._seen:
            return  # the same report again
        self._seen.add((node, reported))
        self.times.setdefault(node, []).append(reported)
        policy = found.spec.metric_collect_policy
        middle = reported - ((policy and policy.aggregate_duration_seconds) or _USUAL_SECONDS) / 2
        for pod in status.pods_metric or ():
            self._take_pod(pod, node, middle, where)

    def _take_pod(self, pod: PodMetric, node: str, middle: float, where: str) -> None:
        key = Key(node, f"{pod.namespace or ''}/{pod.name or ''}")
        (self.others.discard if (pod.priority or "") in _PROD else self.others.add)(key)
        amounts = (pod.pod_usage.resources if pod.pod_usage is not None else None) or {}
        for resource, measured in self.measured.items():
            if resource in amounts:
                try:
                    amount = float(parse_quantity(amounts[resource]))
                except (QuantityError, OverflowError) as error:
                    raise TraceError(f"{where}: {resource} of pod {grid.plain(key.pod)}: {error}") from error
                measured.add(key, np.array([middle]), np.array([amount]))

    def check_distance(self, source: str) -> None:
        """Refuse snapshots that are too far apart to know peaks by.

        Raises:
            TraceError: they are.
        """
        apart = [float(np.median(np.diff(sorted(times)))) for times in self.times.values() if len(times) > 1]
        if apart and np.median(apart) > _MOST_APART * _USUAL_SECONDS:
            raise TraceError(
                f"{source}: its snapshots are {np.median(apart) / 60:.0f} minutes apart; keep one every five minutes, "
                "peaks in between are not known"
            )


def read(places: Sequence[str], options: Options, progress: Progress) -> list[Trace]:
    """The traces of the nodes that were reported, one per resource; each pod is where it really was.

    A report is the average over the minutes before it, and counts for the five minutes that their middle falls in.

    Args:
        places: files of snapshots: one document after the other, lists or single objects.
        options: what is wanted; `options.pods` has the pods' requests, which NodeMetrics lack.
        progress: called with what is being read.

    Raises:
        TraceError: a file cannot be read, or no pod can be evaluated.
    """
    if not options.pods:
        raise TraceError(f"NodeMetrics do not have the pods' requests; give --pods FILE, with {PODS_COMMAND}")
    given = by_name(read_pods(options.pods))
    source = f"{places[0]} and {len(places) - 1} more" if len(places) > 1 else places[0]
    snapshots = _Snapshots(options, source)
    for number, place in enumerate(places):
        progress(number / len(places), f"reading {place}")
        for item in objects(Path(place), "NodeMetric", COMMAND):
            snapshots.take(item, place)
    snapshots.check_distance(source)
    found = []
    for measured in snapshots.measured.values():
        if measured.keys:
            pods = {key: _pod(key, given, snapshots) for key in measured.keys if key.pod in given}
            found.append(trace_of(measured, pods, source))
    if not found:
        names = " and ".join(options.resources)
        raise TraceError(f"{source}: reports no {names} of any pod{options.within}")
    return found


def _pod(key: Key, given: Mapping[str, Pod], snapshots: _Snapshots) -> Pod:
    pod = given[key.pod]
    prod = pod.prod and key not in snapshots.others
    return Pod(pod.name, pod.uid, key.node, pod.workload, prod, pod.requests, pod.limits)


def _moment(text: object, where: str) -> float:
    try:
        moment = datetime.fromisoformat(str(text))
        return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        raise TraceError(f"{where}: status.updateTime {grid.shown(text)} is no time") from None
