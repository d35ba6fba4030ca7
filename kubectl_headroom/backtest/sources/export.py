"""The export of `headroom-agent db export --to DIR`: a table per resource with a column per pod, and the pods."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from kubectl_headroom.backtest.sources import Options, Progress, grid
from kubectl_headroom.backtest.sources.files import amount, dict_rows, find, read_table
from kubectl_headroom.backtest.sources.machines import MACHINES, TABLES
from kubectl_headroom.backtest.sources.pod_lifetimes import Key, Measured, traces_of
from kubectl_headroom.backtest.sources.pods import Pod, merge_pod, read_pods
from kubectl_headroom.backtest.trace import Resource, Trace, TraceError

PODS: Final = "pods.csv"  # the file with the pods
_AMOUNTS: Final[dict[Resource, tuple[str, str, float]]] = {
    "cpu": ("cpu_request_millicores", "cpu_limit_millicores", 1e-3),
    "memory": ("mem_request_mib", "mem_limit_mib", float(1 << 20)),
}
_COLUMNS: Final = ("uid", "node", "pod", "workload", "class")


def folders(place: Path, *, has_pods: bool) -> list[Path]:
    """The exports in a folder: itself, or its folders, one per node; tables alone, if the pods are known elsewhere."""
    return [path for path in [place, *sorted(place.iterdir())] if path.is_dir() and _is_export(path, has_pods=has_pods)]


def read(places: Sequence[Path], options: Options, progress: Progress) -> list[Trace]:
    """The traces of the nodes that were exported, one per resource; each pod is where it really was.

    Raises TraceError if a file cannot be read, or no pod can be evaluated.
    """
    pods_by_uid = {pod.uid: pod for pod in read_pods(options.pods) if pod.uid}
    pods = {place: _pods(place) for place in places}
    nodes = {place: next((pod.node for pod in pods[place].values() if pod.node), place.name) for place in places}
    pods_by_key = {Key(nodes[place], uid): pod for place in places for uid, pod in pods[place].items()}
    source = grid.place_title(places)

    def pod_of(key: Key) -> Pod | None:
        pod = merge_pod(pods_by_key.get(key), pods_by_uid.get(key.pod))
        return pod and replace(pod, node=key.node)

    traces = []
    for resource in options.resources:
        measured = Measured(resource, options, source)
        for number, place in enumerate(places):
            path = find(place, TABLES[resource][0])
            if path is None:
                continue
            progress(number / len(places), f"reading {path}")
            table = read_table(path, options)
            measured.notes += table.notes
            for column, uid in enumerate(table.names):
                there = ~np.isnan(table.values[:, column])
                amounts = table.values[there, column] * TABLES[resource][1]
                measured.add(Key(nodes[place], uid), table.times[there], amounts)
        traces += traces_of([measured], pod_of, source)
    if not traces:
        raise TraceError(f"{source}: has nothing of {' and '.join(options.resources)} in the requested time")
    return traces


def _is_export(folder: Path, *, has_pods: bool) -> bool:
    if find(folder, PODS) is not None:
        return True
    tables = any(find(folder, name) for name, _ in TABLES.values())
    return has_pods and tables and find(folder, MACHINES) is None


def _pods(folder: Path) -> dict[str, Pod]:
    path = find(folder, PODS)
    if path is None:
        return {}
    needed = (*_COLUMNS, *(name for request, limit, _ in _AMOUNTS.values() for name in (request, limit)))
    return {row["uid"]: _pod(row, where) for where, row in dict_rows(path, needed)}


def _pod(row: dict[str, str], where: str) -> Pod:
    uid = row["uid"]
    if not uid:
        raise TraceError(f"{where} has no uid")
    return Pod(
        name=row["pod"] or uid,
        uid=uid,
        node=row["node"],
        workload=row["workload"] or None,
        prod=row["class"] in ("prod", ""),
        requests={name: amount(row, request, where) * unit for name, (request, _, unit) in _AMOUNTS.items()},
        limits={name: amount(row, limit, where) * unit for name, (_, limit, unit) in _AMOUNTS.items()},
    )
