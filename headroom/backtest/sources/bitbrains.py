"""Machines in the layout of Bitbrains' trace: a table per resource, and `vms.csv` with the size of each machine."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from agent.numerics.arrays import FloatArray
from headroom.backtest.sources import Options, Progress, grid
from headroom.backtest.sources.text_file import find, open_text
from headroom.backtest.sources.wide_csv import Table, dict_rows, read_table
from headroom.backtest.trace import Resource, Trace, TraceError

TABLES: Final[Mapping[Resource, tuple[str, float]]] = {
    "cpu": ("cpu_millicores.csv", 1e-3),
    "memory": ("mem_mib.csv", float(1 << 20)),
}
"""The table of each resource, and what its unit has of cores or bytes."""
MACHINES: Final = "vms.csv"
"""The file with the sizes."""
_SIZES: Final[Mapping[Resource, tuple[str, float]]] = {
    "cpu": ("cores", 1.0),
    "memory": ("mem_capacity_mib", float(1 << 20)),
}
_NAME, _COVERAGE = "vm", "coverage"
_LEAST_MEASURED: Final = 0.5


@dataclass(frozen=True, slots=True)
class Machine:
    """A row of `vms.csv`."""

    limits: Mapping[Resource, float]
    """How large it is. [cores, bytes]"""
    coverage: float | None
    """Share of the steps that were measured, from the file; None where it has none."""


def read(folder: Path, options: Options, progress: Progress) -> list[Trace]:
    """The traces of a folder, one per resource that it has.

    Machines with a limit above 0 of which more than 95 % was measured count; their gaps are filled linearly and their
    use is capped at their limit.

    Raises:
        TraceError: a file cannot be read, or no machine counts.
    """
    machines = _machines(folder)
    paths = {resource: find(folder, TABLES[resource][0]) for resource in options.resources}
    found = []
    for number, (resource, path) in enumerate(paths.items()):
        if path is not None:
            progress(number / len(paths), f"reading {path.name}")
            found.append(_trace(path, resource, machines, options))
    if not found:
        names = " nor ".join(f"{TABLES[resource][0]}[.gz|.xz]" for resource in options.resources)
        raise TraceError(f"{folder}: has no {names}")
    return found


def _trace(path: Path, resource: Resource, machines: Mapping[str, Machine], options: Options) -> Trace:
    table = read_table(path, options)
    unit = TABLES[resource][1]
    known = [machines.get(name) or machines.get(name.removeprefix("vm")) for name in table.names]
    limits = np.array([0.0 if one is None else one.limits[resource] for one in known])
    measured = grid.share_measured(table.values)
    coverage = np.array(
        [
            share if one is None or one.coverage is None else one.coverage
            for one, share in zip(known, measured.tolist(), strict=True)
        ]
    )
    unknown = np.array([one is None for one in known])
    small = ~unknown & ~(limits > 0.0)
    sparse = ~unknown & ~small & ~((coverage > grid.COVERAGE) & (measured > _LEAST_MEASURED))
    notes = [
        *table.notes,
        *grid.left_out(table.names, unknown, f"not in {MACHINES}", "machines"),
        *grid.left_out(table.names, small, f"{resource} limit 0", "machines"),
        *grid.left_out(table.names, sparse, "measured for 95 % of the time or less", "machines"),
    ]
    kept = np.flatnonzero(~(unknown | small | sparse))
    if not kept.size:
        raise TraceError(f"{path}: none of its {len(table.names)} machines can be used. {' '.join(notes)}")
    usage = np.ascontiguousarray(table.values[:, kept])
    usage *= unit
    kept_table = replace(table, names=tuple(table.names[place] for place in kept), values=usage, notes=tuple(notes))
    return machine_trace(resource, kept_table, limits[kept], str(path))


def machine_trace(resource: Resource, table: Table, limits: FloatArray, source: str) -> Trace:
    """A trace of machines that are there all the time: gaps filled, capped, every repair noted.

    Args:
        resource: which.
        table: with at least one sample in each column. [cores or bytes]
        limits: shape (V,). [cores or bytes]
        source: where it is from.
    """
    usage, gaps = grid.filled(table.values)
    above = grid.capped(usage, limits)
    notes = list(table.notes)
    if gaps:
        notes.append(f"Gaps were filled linearly: {grid.percent(gaps)} of the {resource} values.")
    if above:
        notes.append(f"Use above the limit counts as the limit: {grid.percent(above)} of the {resource} values.")
    return Trace(
        resource=resource,
        times=table.times,
        step_seconds=grid.STEP_SECONDS,
        usage=usage,
        limits=limits,
        names=table.names,
        source=source,
        notes=tuple(notes),
    )


def _machines(folder: Path) -> dict[str, Machine]:
    path = find(folder, MACHINES)
    if path is None:
        raise TraceError(
            f"{folder}: has no {MACHINES}, with the size of each machine (columns {_NAME}, cores, "
            f"mem_capacity_mib, {_COVERAGE}); for pods give --pods FILE, with kubectl get pods --all-namespaces -o json"
        )
    found: dict[str, Machine] = {}
    with open_text(path) as stream:
        for where, row in dict_rows(path, stream, (_NAME, *(column for column, _ in _SIZES.values()))):
            name = row[_NAME]
            if not name:
                raise TraceError(f"{where} names no machine")
            if name in found:
                raise TraceError(f"{where}: machine {grid.shown(name)} is there twice")
            limits = {
                resource: _number(row[column], where, column) * unit for resource, (column, unit) in _SIZES.items()
            }
            share = row.get(_COVERAGE)
            found[name] = Machine(limits, None if not share else _share(share, where))
    return found


def _share(text: str, where: str) -> float:
    share = _number(text, where, _COVERAGE)
    if share > 1.0:
        raise TraceError(f"{where}, column {_COVERAGE!r}: {grid.shown(text)} must be a share from 0 to 1")
    return share


def _number(text: str, where: str, column: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not 0.0 <= number < np.inf:
        raise TraceError(f"{where}, column {column!r}: {grid.shown(text)} must be a number of at least 0")
    return number
