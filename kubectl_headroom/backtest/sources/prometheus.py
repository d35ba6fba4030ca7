"""Pods as Prometheus knows them: use from cAdvisor, requests, limits and nodes from kube-state-metrics."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kubectl_headroom.backtest.sources import QUERIES, Options, Progress
from kubectl_headroom.backtest.sources.grid import STEP_SECONDS
from kubectl_headroom.backtest.sources.pod_lifetimes import Key, Measured, traces_of
from kubectl_headroom.backtest.sources.pods import RESOURCES, Pod, merge_pod, read_pods
from kubectl_headroom.backtest.sources.prometheus_api import Api, Labels
from kubectl_headroom.backtest.trace import Resource, Trace, TraceError

WINDOW_SECONDS: Final = 14 * 86400.0  # the default range of the queries [s]
PIECE_SECONDS: Final = 86400.0
"""A query covers at most a day: 288 points per series, of Prometheus' limit of 11,000. [s]"""
_BELOW_PROD: Final = frozenset({"koord-mid", "koord-batch", "koord-free"})  # PriorityClasses of pods that are not Prod
_TEMPLATE_HASH: Final = re.compile(r"(.+)-[bcdfghjklmnpqrstvwxz2456789]{1,10}")
_CRON_JOB_RUN: Final = re.compile(r"(.+)-[0-9]{8}")
_NAMES: Final = ("namespace", "pod")


def read(places: Sequence[str], options: Options, progress: Progress) -> list[Trace]:
    """The traces of a cluster at a URL, one per resource; each pod is where it really was.

    Of the five minutes before each point, the average counts (see `QUERIES`). A pod's node is the label ``node`` of the
    query about its use, else that of the query ``pods``. Raises TraceError if it cannot be queried, or has no pod that
    can be evaluated.
    """
    if len(places) != 1:
        raise TraceError(f"--prometheus: give one URL, not {len(places)}")
    return read_from(Api(places[0], options), options, progress)


def read_from(api: Api, options: Options, progress: Progress) -> list[Trace]:
    """The same of a server."""
    pods_by_name = {pod.name: pod for pod in read_pods(options.pods)}
    cluster = _Cluster(api, options)
    pieces = list(_pieces(options, time.time()))
    for number, piece in enumerate(pieces):
        progress(number / len(pieces), f"querying {api.url} for {time.strftime('%Y-%m-%d', time.gmtime(piece[0]))}")
        cluster.query(*piece)

    def pod_of(key: Key) -> Pod | None:
        result = cluster.pod(key)
        return replace(merge_pod(result, pods_by_name.get(key.pod)) or result, node=key.node) if key.node else None

    for usage in cluster.measured:
        if homeless := sum(not key.node for key in usage.keys):
            where = f"query {cluster.queries['pods']!r} has the node of each pod"
            usage.notes.append(f"{homeless} pods are on no node that is known; {where}.")
    result = traces_of(cluster.measured, pod_of, api.url)
    if not result:
        texts = " and ".join(repr(cluster.queries[resource]) for resource in options.resources)
        raise TraceError(
            f"{api.url}: has nothing for the queries {texts} in the requested time; give your own with "
            "--query NAME=QUERY, and another time with --last"
        )
    return result


def _pieces(options: Options, now: float) -> Iterator[tuple[float, float]]:
    """Time ranges of at most a day, on whole steps. [seconds since 1970]"""
    end = (now if options.until is None else min(options.until, now)) // STEP_SECONDS * STEP_SECONDS
    start = end - (options.last_seconds or WINDOW_SECONDS) if options.since is None else options.since
    if options.last_seconds is not None:
        start = max(start, end - options.last_seconds)
    start = -(-start // STEP_SECONDS) * STEP_SECONDS
    if start >= end:
        raise TraceError("--from must be before --until, and before now")
    while start < end:
        yield start, min(start + PIECE_SECONDS, end)
        start += PIECE_SECONDS


class _Cluster:
    """Usage and metadata of the pods from the answers, by namespace/name: the newest answer counts."""

    def __init__(self, api: Api, options: Options) -> None:
        self.queries: Mapping[str, str] = {**QUERIES, **options.queries}
        self.measured = [Measured(resource, options, api.url) for resource in options.resources]
        self._api = api
        self._amounts: dict[str, dict[str, float]] = {}  # by the name of their query
        self._homes: dict[str, Labels] = {}  # of the query `pods`

    def query(self, start: float, end: float) -> None:
        """Take what one time range has."""
        for name in (f"{query.resource}-{what}" for query in self.measured for what in ("requests", "limits")):
            amounts = self._amounts.setdefault(name, {})
            for labels, value in self._api.highest(self.queries[name], start, end):
                amounts[self._name(labels, self.queries[name])] = value
        for labels, _ in self._api.highest(self.queries["pods"], start, end):
            self._homes[self._name(labels, self.queries["pods"])] = labels
        for usage in self.measured:
            query = self.queries[usage.resource]
            for series in self._api.ranges(query, start + STEP_SECONDS, end):
                pod = self._name(series.labels, query)
                node = series.labels.get("node") or self._homes.get(pod, {}).get("node", "")
                # A point covers the five minutes before it.
                usage.add(Key(node, pod), series.times - STEP_SECONDS, series.values)

    def pod(self, key: Key) -> Pod:
        """The properties of a pod."""
        labels = self._homes.get(key.pod, {})

        def of(what: str) -> dict[Resource, float]:
            result = {kind: self._amounts.get(f"{kind}-{what}", {}).get(key.pod) for kind in RESOURCES}
            return {kind: amount for kind, amount in result.items() if amount is not None}

        prod = labels.get("priority_class", "") not in _BELOW_PROD
        return Pod(key.pod, "", key.node, _workload(labels), prod, of("requests"), of("limits"))

    def _name(self, labels: Labels, query: str) -> str:
        if not all(labels.get(label) for label in _NAMES):
            raise TraceError(
                f"{self._api.url}: query {query!r} gives series without the labels {' and '.join(_NAMES)}; give one "
                "that keeps them with --query, as in 'sum by (namespace, pod) (...)'"
            )
        return "/".join(labels[label] for label in _NAMES)


def _workload(labels: Labels) -> str | None:
    """The workload, named as by `headroom.cluster.pod.workload_key`, from kube-state-metrics' owner."""
    kind, name = labels.get("created_by_kind", ""), labels.get("created_by_name", "")
    if not kind or kind == "<none>":
        return None
    if kind == "Node":
        kind, name = "Pod", labels.get("pod", "")
    pattern = {"ReplicaSet": _TEMPLATE_HASH, "Job": _CRON_JOB_RUN}.get(kind)
    if pattern is not None and (result := pattern.fullmatch(name)):
        kind, name = "CronJob" if kind == "Job" else kind, result[1]
    return f"{labels.get('namespace', '')}/{kind}/{name}"
