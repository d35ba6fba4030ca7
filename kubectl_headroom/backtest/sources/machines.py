"""Machines: a table per resource, and `vms.csv` with the size of each machine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kubectl_headroom.backtest.sources import Options, Progress, grid
from kubectl_headroom.backtest.sources.files import amount, dict_rows, find, read_table
from kubectl_headroom.backtest.sources.grid import Table
from kubectl_headroom.backtest.trace import Resource, Trace, TraceError

TABLES: Final[Mapping[Resource, tuple[str, float]]] = {
    "cpu": ("cpu_millicores.csv", 1e-3),
    "memory": ("mem_mib.csv", float(1 << 20)),
}
"""The table of each resource, and what its unit has of cores or bytes."""
MACHINES: Final = "vms.csv"  # the file with the sizes
_SIZES: Final[Mapping[Resource, tuple[str, float]]] = {
    "cpu": ("cores", 1.0),
    "memory": ("mem_capacity_mib", float(1 << 20)),
}
_NAME, _COVERAGE = "vm", "coverage"
_LEAST_MEASURED: Final = 0.5


class _Machine(NamedTuple):
    limits: Mapping[Resource, float]
    coverage: float | None  # share of the steps that were measured, from the file; None where it has none


def read(folder: Path, options: Options, progress: Progress) -> list[Trace]:
    """The traces of a folder, one per resource that it has.

    Machines with a limit above 0 of which more than 95 % was measured count; their gaps are filled linearly and their
    use is capped at their limit. Raises TraceError if a file cannot be read, or no machine counts.
    """
    machines = _machines(folder)
    paths = {resource: find(folder, TABLES[resource][0]) for resource in options.resources}
    result = []
    for number, (resource, path) in enumerate(paths.items()):
        if path is not None:
            progress(number / len(paths), f"reading {path.name}")
            result.append(_trace(path, resource, machines, options))
    if not result:
        names = " or ".join(f"{TABLES[resource][0]}[.gz|.xz]" for resource in options.resources)
        raise TraceError(f"{folder}: has no {names}")
    return result


def _trace(path: Path, resource: Resource, machines: Mapping[str, _Machine], options: Options) -> Trace:
    table = read_table(path, options)
    matched = [machines.get(name) or machines.get(name.removeprefix("vm")) for name in table.names]
    limits = np.array([0.0 if machine is None else machine.limits[resource] for machine in matched])
    measured = grid.share_measured(table.values)
    stated = [np.nan if machine is None or machine.coverage is None else machine.coverage for machine in matched]
    coverage = np.where(np.isnan(stated), measured, stated)
    unknown = np.array([machine is None for machine in matched])
    small = ~unknown & ~(limits > 0.0)
    sparse = ~unknown & ~small & ~((coverage > grid.COVERAGE) & (measured > _LEAST_MEASURED))
    notes = [
        *table.notes,
        *grid.left_out(table.names, unknown, f"not in {MACHINES}", "machines"),
        *grid.left_out(table.names, small, f"{resource} limit 0", "machines"),
        *grid.left_out(table.names, sparse, "measured for 95 % of the time or less", "machines"),
    ]
    columns = np.flatnonzero(~(unknown | small | sparse))
    if not columns.size:
        raise TraceError(f"{path}: none of its {len(table.names)} machines can be used. {' '.join(notes)}")
    usage = np.ascontiguousarray(table.values[:, columns])
    usage *= TABLES[resource][1]
    kept_table = Table(tuple(table.names[place] for place in columns), table.times, usage, tuple(notes))
    return grid.machine_trace(resource, kept_table, limits[columns], str(path))


def _machines(folder: Path) -> dict[str, _Machine]:
    path = find(folder, MACHINES)
    if path is None:
        raise TraceError(
            f"{folder}: has no {MACHINES}, with the size of each machine (columns {_NAME}, cores, "
            f"mem_capacity_mib, {_COVERAGE}); for pods give --pods FILE, with kubectl get pods --all-namespaces -o json"
        )
    result: dict[str, _Machine] = {}
    for where, row in dict_rows(path, (_NAME, *(column for column, _ in _SIZES.values()))):
        name = row[_NAME]
        if not name:
            raise TraceError(f"{where} names no machine")
        if name in result:
            raise TraceError(f"{where}: machine {grid.shown(name)} is there twice")
        limits = {
            resource: amount(row, column, where, required=True) * unit for resource, (column, unit) in _SIZES.items()
        }
        share = amount(row, _COVERAGE, where, required=True) if row.get(_COVERAGE) else None
        if share is not None and share > 1.0:
            text = grid.shown(row[_COVERAGE])
            raise TraceError(f"{where}, column {_COVERAGE!r}: {text} must be a share from 0 to 1")
        result[name] = _Machine(limits, share)
    return result
