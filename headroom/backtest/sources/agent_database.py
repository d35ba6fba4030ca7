"""Databases of agents: what they measured, pod by pod, and whose it was; read beside the agent that writes to it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from agent.numerics.packing import CheckpointError
from agent.pod_metadata import PodMetadata, PodMetadataStore
from agent.samples import NODE, SYS
from agent.tsdb import checkpoints
from agent.tsdb.inspection import DatabaseReader
from agent.tsdb.schema import StoreError
from agent.tsdb.series import FIVE_MINUTES_MS
from headroom.backtest.sources import Options, Progress, export, grid
from headroom.backtest.sources.pod_lifetimes import Key, Measured, traces_of
from headroom.backtest.sources.pods import Pod, merge_pod, read_pods
from headroom.backtest.trace import Resource, Trace, TraceError

FILE: Final = "agent.db"  # what an agent calls its database, in its data directory
_DAY_SECONDS: Final = 86400.0
_UNITS: Final[Mapping[Resource, float]] = {"cpu": 1e-3, "memory": 1.0}


def read(places: Sequence[str], options: Options, progress: Progress) -> list[Trace]:
    """The traces of nodes, one per resource; each pod is where it really was. Two databases of a node are put together.

    Places are files, or the agents' data directories; or folders that `headroom-agent db export` wrote, those alone.
    Raises TraceError if a database cannot be read, or no pod in it can be evaluated.
    """
    paths = [Path(place) for place in places]
    exports = [one for path in paths if path.is_dir() for one in export.folders(path, has_pods=bool(options.pods))]
    if exports:
        return export.read(exports, options, progress)
    given = {pod.uid: pod for pod in read_pods(options.pods) if pod.uid}
    source = grid.place_title(places)
    measured = [Measured(resource, options, source) for resource in options.resources]
    known: dict[Key, Pod] = {}
    for number, place in enumerate(paths):
        path = place / FILE if place.is_dir() else place
        progress(number / len(paths), f"reading {path}")
        try:
            with DatabaseReader.open(path) as database:
                _read(database, path, measured, known)
        except StoreError as error:
            raise TraceError(str(error)) from error

    def pod_of(key: Key) -> Pod | None:
        pod = merge_pod(known.get(key), given.get(key.pod))
        return pod and replace(pod, node=key.node)

    found = traces_of(measured, pod_of, source)
    if not found:
        raise TraceError(f"{source}: has no pod's use of five minutes{options.within}")
    return found


def _read(database: DatabaseReader, path: Path, measured: Sequence[Measured], known: dict[Key, Pod]) -> None:
    """Take in one database: what was used, and what the agent remembers of the pods."""
    identities, notes = PodMetadataStore(), list[str]()
    try:
        identities.restore(checkpoints.load(database.connection))
    except CheckpointError as error:
        notes.append(f"{path}: the names of its pods cannot be read: {error}.")
    node = identities.node or path.resolve().parent.name
    for amounts in measured:
        _measure(database, node, amounts)
    pods = {Key(node, uid): metadata for uid, metadata in identities.all_pods().items()}
    known.update({key: _pod(key, metadata) for key, metadata in pods.items()})
    if database.unreadable:
        chunks = grid.counted(len(database.unreadable), "chunk")
        notes.append(f"{path}: {chunks} cannot be read and count as gaps: {next(iter(database.unreadable))}.")
    for amounts in measured:
        amounts.notes += notes


def _measure(database: DatabaseReader, node: str, measured: Measured) -> None:
    """Add what a database has, a day at a time, so that little is in memory at once."""
    times = [time for one in database.stats().resolutions for time in (one.first, one.last) if time is not None]
    if not times:
        return
    first = max(min(times), measured.options.since or 0.0)
    last = min(max(times) + 1.0, np.inf if measured.options.until is None else measured.options.until)
    for start in np.arange(first // _DAY_SECONDS * _DAY_SECONDS, last, _DAY_SECONDS).tolist():
        found = database.minutes(measured.resource, start, min(start + _DAY_SECONDS, last))
        for entity, minutes in found.items():
            if entity not in (NODE, SYS):
                points = minutes.merged(FIVE_MINUTES_MS)
                measured.add(Key(node, entity), points.starts_ms / 1000.0, points.average)


def _pod(key: Key, known: PodMetadata) -> Pod:
    return Pod(
        name=known.name,
        uid=key.pod,
        node=key.node,
        workload=known.workload,
        prod=known.class_name == "prod",
        requests={name: known.requests[name] * unit for name, unit in _UNITS.items() if name in known.requests},
        limits={name: known.limits[name] * unit for name, unit in _UNITS.items() if name in known.limits},
    )
