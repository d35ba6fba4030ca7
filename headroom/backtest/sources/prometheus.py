"""Pods as Prometheus knows them: use from cAdvisor, requests, limits and nodes from kube-state-metrics."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from headroom.backtest.sources import QUERIES, Options, Progress
from headroom.backtest.sources.grid import STEP_SECONDS
from headroom.backtest.sources.pod_lifetimes import Key, Measured, trace_of
from headroom.backtest.sources.pods import Pod, by_name, merge_pod, read_pods
from headroom.backtest.sources.prometheus_api import Api, Labels
from headroom.backtest.trace import Resource, Trace, TraceError

WINDOW_SECONDS: Final = 14 * 86400.0
"""How far back the queries go by default. [s]"""
PIECE_SECONDS: Final = 86400.0
"""One query covers at most a day: 288 points per series, of the 11,000 that Prometheus answers with. [s]"""
_BELOW_PROD: Final = frozenset({"koord-mid", "koord-batch", "koord-free"})
"""PriorityClasses of pods that are not Prod."""
_TEMPLATE_HASH: Final = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{1,10}")
_CRON_JOB_RUN: Final = re.compile(r"-[0-9]{8}")
_NAMES: Final = ("namespace", "pod")


@dataclass(slots=True)
class _PodMetadata:
    """Metadata of the pods from the answers, by namespace/name: the newest answer counts."""

    amounts: dict[str, dict[str, float]] = field(default_factory=dict)
    """Requests and limits by the name of their query."""
    homes: dict[str, Labels] = field(default_factory=dict)
    """Labels of the query `pods`."""

    def pod(self, name: str, node: str) -> Pod:
        """One pod."""
        labels = self.homes.get(name, {})
        kinds: tuple[Resource, ...] = ("cpu", "memory")

        def of(what: str) -> dict[Resource, float]:
            found = {kind: self.amounts.get(f"{kind}-{what}", {}).get(name) for kind in kinds}
            return {kind: amount for kind, amount in found.items() if amount is not None}

        return Pod(
            name=name,
            node=node,
            workload=_workload(labels),
            prod=labels.get("priority_class", "") not in _BELOW_PROD,
            requests=of("requests"),
            limits=of("limits"),
        )


def read(places: Sequence[str], options: Options, progress: Progress) -> list[Trace]:
    """The traces of a cluster, one per resource; each pod is where it really was.

    Of the five minutes before each point, the average counts (see `QUERIES`). A pod's node is the label ``node`` of the
    query about its use, else that of the query ``pods``.

    Args:
        places: the URL.
        options: window, login, queries.
        progress: called with the day that is being queried.

    Raises:
        TraceError: it cannot be queried, or has no pod that can be evaluated.
    """
    if len(places) != 1:
        raise TraceError(f"--prometheus: give one URL, not {len(places)}")
    return read_from(Api(places[0], options), options, progress)


def read_from(api: Api, options: Options, progress: Progress) -> list[Trace]:
    """The same of a server.

    Raises:
        TraceError: it cannot be queried, or has no pod that can be evaluated.
    """
    queries = {**QUERIES, **options.queries}
    given = by_name(read_pods(options.pods))
    measured = {resource: Measured(resource, options, api.url) for resource in options.resources}
    known = _PodMetadata()
    pieces = list(_pieces(options, time.time()))
    for number, (start, end) in enumerate(pieces):
        progress(number / len(pieces), f"querying {api.url} for {time.strftime('%Y-%m-%d', time.gmtime(start))}")
        _update_metadata(api, queries, options.resources, (start, end), known)
        for resource, amounts in measured.items():
            _measure(api, queries[resource], (start, end), amounts, known)
    found = []
    for amounts in measured.values():
        if amounts.keys:
            pods = {key: _known_pod(key, given, known) for key in amounts.keys if key.node}
            found.append(trace_of(amounts, pods, api.url, _notes(amounts, queries)))
    if not found:
        texts = " and ".join(repr(queries[resource]) for resource in options.resources)
        raise TraceError(
            f"{api.url}: has nothing for the queries {texts} in the requested time; give your own with "
            "--query NAME=QUERY, and another time with --last"
        )
    return found


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


def _update_metadata(
    api: Api,
    queries: Mapping[str, str],
    resources: Sequence[Resource],
    piece: tuple[float, float],
    known: _PodMetadata,
) -> None:
    """Take requests, limits and nodes of one time range."""
    for name in (f"{resource}-{what}" for resource in resources for what in ("requests", "limits")):
        amounts = known.amounts.setdefault(name, {})
        for labels, value in api.highest(queries[name], *piece):
            amounts[_name(labels, queries[name], api)] = value
    for labels, _ in api.highest(queries["pods"], *piece):
        known.homes[_name(labels, queries["pods"], api)] = labels


def _measure(api: Api, query: str, piece: tuple[float, float], measured: Measured, known: _PodMetadata) -> None:
    """Take usage of one time range. A point covers the five minutes before it."""
    start, end = piece
    for series in api.ranges(query, start + STEP_SECONDS, end):
        name = _name(series.labels, query, api)
        node = series.labels.get("node") or known.homes.get(name, {}).get("node", "")
        measured.add(Key(node, name), series.times - STEP_SECONDS, series.values)


def _name(labels: Labels, query: str, api: Api) -> str:
    if not all(labels.get(label) for label in _NAMES):
        raise TraceError(
            f"{api.url}: query {query!r} gives series without the labels {' and '.join(_NAMES)}; give one that keeps "
            "them with --query, as in 'sum by (namespace, pod) (...)'"
        )
    return "/".join(labels[label] for label in _NAMES)


def _known_pod(key: Key, given: Mapping[str, Pod], known: _PodMetadata) -> Pod:
    found = known.pod(key.pod, key.node)
    return replace(merge_pod(found, given.get(key.pod)) or found, node=key.node)


def _notes(measured: Measured, queries: Mapping[str, str]) -> list[str]:
    homeless = sum(not key.node for key in measured.keys)
    if not homeless:
        return []
    return [f"{homeless} pods are on no node that is known; query {queries['pods']!r} has the node of each pod."]


def _workload(labels: Labels) -> str | None:
    """The workload, named as by `headroom.cluster.pod.workload_key`, from kube-state-metrics' owner."""
    kind, name = labels.get("created_by_kind", ""), labels.get("created_by_name", "")
    if not kind or kind == "<none>":
        return None
    if kind == "Node":
        kind, name = "Pod", labels.get("pod", "")
    elif kind == "ReplicaSet":
        name = _without_end(name, _TEMPLATE_HASH)
    elif kind == "Job":
        name = _without_end(name, _CRON_JOB_RUN)
    return f"{labels.get('namespace', '')}/{kind}/{name}"


def _without_end(name: str, pattern: re.Pattern[str]) -> str:
    head, dash, tail = name.rpartition("-")
    return head if head and pattern.fullmatch(dash + tail) else name
