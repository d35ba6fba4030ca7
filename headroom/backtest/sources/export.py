"""What `headroom-agent db export --to DIR` wrote: a table per resource with a column per pod, and the pods."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from headroom.backtest.sources import Options, Progress
from headroom.backtest.sources.bitbrains import MACHINES, TABLES
from headroom.backtest.sources.grid import shown
from headroom.backtest.sources.pod_lifetimes import Key, Measured, trace_of
from headroom.backtest.sources.pods import Pod, by_uid, merge_pod, read_pods
from headroom.backtest.sources.text_file import find, open_text
from headroom.backtest.sources.wide_csv import dict_rows, read_table
from headroom.backtest.trace import Resource, Trace, TraceError

PODS: Final = "pods.csv"
"""The file with the pods."""
_AMOUNTS: Final[dict[Resource, tuple[str, str, float]]] = {
    "cpu": ("cpu_request_millicores", "cpu_limit_millicores", 1e-3),
    "memory": ("mem_request_mib", "mem_limit_mib", float(1 << 20)),
}
_COLUMNS: Final = ("uid", "node", "pod", "workload", "class")


def folders(place: Path, *, has_pods: bool) -> list[Path]:
    """The exports in a folder: itself, or its folders, one per node.

    Args:
        place: the folder.
        has_pods: whether the pods are known from elsewhere, so that tables alone are an export.
    """
    return [one for one in [place, *sorted(place.iterdir())] if one.is_dir() and _is_export(one, has_pods=has_pods)]


def read(places: Sequence[Path], options: Options, progress: Progress) -> list[Trace]:
    """The traces of the nodes that were exported, one per resource; each pod is where it really was.

    Raises:
        TraceError: a file cannot be read, or no pod can be evaluated.
    """
    given = by_uid(read_pods(options.pods))
    known = {place: _pods(place) for place in places}
    traces = []
    for resource in options.resources:
        measured = Measured(resource, options, _source(places))
        pods: dict[Key, Pod] = {}
        notes: list[str] = []
        for number, place in enumerate(places):
            path = find(place, TABLES[resource][0])
            if path is None:
                continue
            progress(number / len(places), f"reading {path}")
            table = read_table(path, options)
            notes += table.notes
            node = next((pod.node for pod in known[place].values() if pod.node), place.name)
            for column, uid in enumerate(table.names):
                there = ~np.isnan(table.values[:, column])
                key = Key(node, uid)
                measured.add(key, table.times[there], table.values[there, column] * TABLES[resource][1])
                pod = merge_pod(known[place].get(uid), given.get(uid))
                if pod is not None:
                    pods[key] = replace(pod, node=node)
        if measured.keys:
            traces.append(trace_of(measured, pods, _source(places), notes))
    if not traces:
        raise TraceError(f"{_source(places)}: has nothing of {' and '.join(options.resources)} in the requested time")
    return traces


def _is_export(folder: Path, *, has_pods: bool) -> bool:
    if find(folder, PODS) is not None:
        return True
    tables = any(find(folder, name) for name, _ in TABLES.values())
    return has_pods and tables and find(folder, MACHINES) is None


def _source(places: Sequence[Path]) -> str:
    return str(places[0]) if len(places) == 1 else f"{places[0]} and {len(places) - 1} more"


def _pods(folder: Path) -> dict[str, Pod]:
    path = find(folder, PODS)
    if path is None:
        return {}
    needed = (*_COLUMNS, *(name for request, limit, _ in _AMOUNTS.values() for name in (request, limit)))
    with open_text(path) as stream:
        pods = [_pod(row, where) for where, row in dict_rows(path, stream, needed)]
    return {pod.uid: pod for pod in pods}


def _pod(row: dict[str, str], where: str) -> Pod:
    uid = row["uid"]
    if not uid:
        raise TraceError(f"{where} has no uid")
    amounts = {
        name: _amount(row[name], f"{where}, column {name!r}") * unit
        for request, limit, unit in _AMOUNTS.values()
        for name in (request, limit)
    }
    return Pod(
        name=row["pod"] or uid,
        uid=uid,
        node=row["node"],
        workload=row["workload"] or None,
        prod=row["class"] in ("prod", ""),
        requests={resource: amounts[request] for resource, (request, _, _) in _AMOUNTS.items()},
        limits={resource: amounts[limit] for resource, (_, limit, _) in _AMOUNTS.items()},
    )


def _amount(text: str, where: str) -> float:
    try:
        number = float(text or 0.0)
    except ValueError:
        number = -1.0
    if not 0.0 <= number < float("inf"):
        raise TraceError(f"{where}: {shown(text)} must be a number of at least 0, or empty")
    return number
