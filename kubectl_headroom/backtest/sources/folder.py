"""Folders given to --trace: tables of machines, or of pods as `headroom-agent db export` writes them."""

from collections.abc import Sequence
from pathlib import Path

from kubectl_headroom.backtest.sources import Options, Progress, export, machines
from kubectl_headroom.backtest.sources.files import find
from kubectl_headroom.backtest.trace import Trace, TraceError


def read(places: Sequence[str], options: Options, progress: Progress) -> list[Trace]:
    """The traces of one folder of machines, or of the exports of nodes, one per resource.

    Places are folders. Raises TraceError if a place is none, or cannot be read.
    """
    paths = [Path(place) for place in places]
    for path in paths:
        if not path.exists():
            raise TraceError(f"{path}: there is no such folder")
        if not path.is_dir():
            raise TraceError(f"{path}: is no folder; give folders alone")
    if exports := [folder for path in paths for folder in export.folders(path, has_pods=bool(options.pods))]:
        return export.read(exports, options, progress)
    if len(paths) > 1:
        raise TraceError(f"{paths[1]}: give one folder of machines at a time; several only of exports")
    if options.pods and find(paths[0], machines.MACHINES) is not None:
        raise TraceError(f"{paths[0]}: has the sizes of its machines in {machines.MACHINES}; leave --pods out")
    tables = [name for name, _ in machines.TABLES.values()]
    if not any(find(paths[0], name) for name in (machines.MACHINES, *tables)):
        raise TraceError(
            f"{paths[0]}: has no trace: it must have {' or '.join(tables)}, and {machines.MACHINES} (machines) or "
            f"{export.PODS} (pods, as headroom-agent db export writes it); each may end in .gz or .xz"
        )
    return machines.read(paths[0], options, progress)
