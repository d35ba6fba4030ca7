"""Snapshots of NodeMetrics, kept over time: `kubectl get nodemetrics -o json` appended to a file every five minutes."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from crds.codec import CodecError, from_json
from crds.node_metric import NodeMetric, PodMetric
from crds.priority import PriorityBand
from crds.quantity import QuantityError, parse_quantity
from headroom.backtest.sources import Options, Progress, grid
from headroom.backtest.sources.files import Json, objects
from headroom.backtest.sources.pod_lifetimes import Key, Measured, traces_of
from headroom.backtest.sources.pods import PODS_COMMAND, Pod, read_pods
from headroom.backtest.trace import Trace, TraceError

COMMAND: Final = "kubectl get nodemetrics -o json"  # what writes a snapshot
_USUAL_SECONDS: Final = 300.0
_MOST_APART: Final = 2.0
_PROD: Final = frozenset({PriorityBand.PROD.value, PriorityBand.NONE.value})


def read(places: Sequence[str], options: Options, progress: Progress) -> list[Trace]:
    """The traces of the nodes that were reported, one per resource; each pod is where it really was.

    A report is the average over the minutes before it, and counts for the five minutes that their middle falls in.
    Places are files of snapshots: one document after the other, lists or single objects. Requests, which NodeMetrics
    lack, are in `options.pods`. Raises TraceError if a file cannot be read, or no pod can be evaluated.
    """
    if not options.pods:
        raise TraceError(f"NodeMetrics do not have the pods' requests; give --pods FILE, with {PODS_COMMAND}")
    given = {pod.name: pod for pod in read_pods(options.pods)}
    source = grid.place_title(places)
    snapshots = _Snapshots(options, source)
    for number, place in enumerate(places):
        progress(number / len(places), f"reading {place}")
        for item in objects(Path(place), "NodeMetric", COMMAND):
            snapshots.take(item, place)
    snapshots.check_distance(source)

    def pod_of(key: Key) -> Pod | None:
        pod = given.get(key.pod)
        return pod and replace(pod, node=key.node, prod=pod.prod and key not in snapshots.others)

    found = traces_of(snapshots.measured, pod_of, source)
    if not found:
        names = " and ".join(options.resources)
        raise TraceError(f"{source}: reports no {names} of any pod{options.within}")
    return found


class _Snapshots:
    """Usage of pods by name from snapshots, added one NodeMetric at a time."""

    def __init__(self, options: Options, where: str) -> None:
        self.measured = [Measured(name, options, where) for name in options.resources]
        self.others: set[Key] = set()  # pods that the last report does not count as Prod
        self._times: dict[str, set[float]] = {}  # when each node was reported

    def take(self, item: Json, where: str) -> None:
        """Add one NodeMetric, unless it has no report yet, or the same again; TraceError if it is none."""
        try:
            found = from_json(NodeMetric, item)
        except CodecError as error:
            raise TraceError(f"{where}: a NodeMetric cannot be understood: {error}") from error
        node, status = found.metadata.name, found.status
        if not node or status is None or not status.update_time:
            return
        where = f"{where}: NodeMetric {grid.plain(node)}"
        reported, times = _moment(status.update_time, where), self._times.setdefault(node, set())
        if reported in times:
            return
        times.add(reported)
        policy = found.spec.metric_collect_policy
        middle = reported - ((policy and policy.aggregate_duration_seconds) or _USUAL_SECONDS) / 2
        for pod in status.pods_metric or ():
            self._take_pod(pod, node, middle, where)

    def _take_pod(self, pod: PodMetric, node: str, middle: float, where: str) -> None:
        key = Key(node, f"{pod.namespace or ''}/{pod.name or ''}")
        (self.others.discard if (pod.priority or "") in _PROD else self.others.add)(key)
        amounts = (pod.pod_usage.resources if pod.pod_usage is not None else None) or {}
        for measured in self.measured:
            resource = measured.resource
            if resource in amounts:
                try:
                    amount = float(parse_quantity(amounts[resource]))
                except (QuantityError, OverflowError) as error:
                    raise TraceError(f"{where}: {resource} of pod {grid.plain(key.pod)}: {error}") from error
                measured.add(key, np.array([middle]), np.array([amount]))

    def check_distance(self, source: str) -> None:
        """Refuse snapshots that are too far apart to know peaks by (TraceError)."""
        apart = [float(np.median(np.diff(sorted(times)))) for times in self._times.values() if len(times) > 1]
        if apart and np.median(apart) > _MOST_APART * _USUAL_SECONDS:
            raise TraceError(
                f"{source}: its snapshots are {np.median(apart) / 60:.0f} minutes apart; keep one every five minutes, "
                "peaks in between are not known"
            )


def _moment(text: object, where: str) -> float:
    try:
        moment = datetime.fromisoformat(str(text))
        return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        raise TraceError(f"{where}: status.updateTime {grid.shown(text)} is no time") from None
