"""Databases of agents: what they measured, pod by pod, and whose it was; read beside the agent that writes to it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from agent.numerics.packing import CheckpointError
from agent.pod_metadata import PodMetadata, PodMetadataStore
from agent.samples import NODE, SYS
from agent.tsdb import checkpoints, rollup
from agent.tsdb.inspection import DatabaseReader
from agent.tsdb.rollup import FIVE_MINUTES_MS
from agent.tsdb.schema import StoreError
from headroom.backtest.sources import Options, Progress, export, grid
from headroom.backtest.sources.pod_lifetimes import Key, Measured, trace_of
from headroom.backtest.sources.pods import Pod, by_uid, merge_pod, read_pods
from headroom.backtest.trace import Resource, Trace, TraceError

FILE: Final = "agent.db"
"""What an agent calls its database, in its data directory."""
_DAY_SECONDS: Final = 86400.0
_MILLI: Final = 1e-3


def read(places: Sequence[str], options: Options, progress: Progress) -> list[Trace]:
    """The traces of nodes, one per resource; each pod is where it really was. Two databases of a node are put together.

    Args:
        places: files, or the agents' data directories; or folders that `headroom-agent db export` wrote, those alone.
        options: what is wanted.
        progress: called with what is being read.

    Raises:
        TraceError: a database cannot be read, or no pod in it can be evaluated.
    """
    paths = [Path(place) for place in places]
    exports = [one for path in paths if path.is_dir() for one in export.folders(path, has_pods=bool(options.pods))]
    if exports:
        return export.read(exports, options, progress)
    given = by_uid(read_pods(options.pods))
    source = f"{places[0]} and {len(places) - 1} more" if len(places) > 1 else places[0]
    measured = {resource: Measured(resource, options, source) for resource in options.resources}
    pods: dict[Key, Pod] = {}
    notes: list[str] = []
    for number, place in enumerate(paths):
        path = place / FILE if place.is_dir() else place
        progress(number / len(paths), f"reading {path}")
        pods.update(_database(path, measured, given, notes))
    found = [trace_of(amounts, pods, source, notes) for amounts in measured.values() if amounts.keys]
    if not found:
        raise TraceError(f"{source}: has no pod's use of five minutes{options.within}")
    return found


def _database(
    path: Path, measured: Mapping[Resource, Measured], given: Mapping[str, Pod], notes: list[str]
) -> dict[Key, Pod]:
    """Take in one database; answers with what is known of its pods."""
    try:
        with DatabaseReader.open(path) as database:
            node, known = _identities(database, path, notes)
            for amounts in measured.values():
                _take(database, node, amounts)
            if database.unreadable:
                chunks = grid.counted(len(database.unreadable), "chunk")
                notes.append(f"{path}: {chunks} cannot be read and count as gaps: {next(iter(database.unreadable))}.")
    except StoreError as error:
        raise TraceError(str(error)) from error
    keys = {key for amounts in measured.values() for key in amounts.keys if key.node == node}
    found = {
        key: merge_pod(_pod(key, known[key.pod]) if key.pod in known else None, given.get(key.pod)) for key in keys
    }
    return {key: replace(pod, node=node) for key, pod in found.items() if pod is not None}


def _identities(database: DatabaseReader, path: Path, notes: list[str]) -> tuple[str, Mapping[str, PodMetadata]]:
    """Name of the node, and the pods that the agent remembers, by uid."""
    identities = PodMetadataStore()
    try:
        identities.restore(checkpoints.load(database.connection))
    except CheckpointError as error:
        notes.append(f"{path}: the names of its pods cannot be read: {error}.")
    return identities.node or path.resolve().parent.name, identities.all_pods()


def _take(database: DatabaseReader, node: str, measured: Measured) -> None:
    """Add what a database has, a day at a time, so that little is in memory at once."""
    times = [time for one in database.stats().resolutions for time in (one.first, one.last) if time is not None]
    if not times:
        return
    first = max(min(times), measured.options.since or 0.0)
    last = min(max(times) + 1.0, np.inf if measured.options.until is None else measured.options.until)
    for start in np.arange(first // _DAY_SECONDS * _DAY_SECONDS, last, _DAY_SECONDS).tolist():
        found = database.queries.minutes(measured.resource, start, min(start + _DAY_SECONDS, last))
        for entity, minutes in found.items():
            if entity not in (NODE, SYS):
                points = rollup.merged(minutes, FIVE_MINUTES_MS)
                measured.add(Key(node, entity), points.starts_ms / 1000.0, points.average)


def _pod(key: Key, known: PodMetadata) -> Pod:
    units: Mapping[Resource, float] = {"cpu": _MILLI, "memory": 1.0}
    return Pod(
        name=known.name,
        uid=key.pod,
        node=key.node,
        workload=known.workload,
        prod=known.class_name == "prod",
        requests={name: known.requests[name] * unit for name, unit in units.items() if name in known.requests},
        limits={name: known.limits[name] * unit for name, unit in units.items() if name in known.limits},
    )
