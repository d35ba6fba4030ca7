"""Folders and files given to --trace: which layout each has, and which source reads it."""

from collections.abc import Sequence
from pathlib import Path

from headroom.backtest.sources import Options, Progress, bitbrains, export, planetlab
from headroom.backtest.sources.files import find
from headroom.backtest.trace import Trace, TraceError


def read(places: Sequence[str], options: Options, progress: Progress) -> list[Trace]:
    """Traces in files: Bitbrains' layout, PlanetLab's days, or what `headroom-agent db export` wrote.

    Places are folders; of PlanetLab, files of days, too; of exports, one per node. Raises TraceError if a place has
    none of the layouts, or cannot be read.
    """
    paths = [Path(place) for place in places]
    for path in paths:
        if not path.exists():
            raise TraceError(f"{path}: there is no such folder")
    if all(path.is_file() for path in paths):
        return planetlab.read(paths, options, progress)
    for path in paths:
        if not path.is_dir():
            raise TraceError(f"{path}: is no folder; give folders, or days of PlanetLab alone")
    if exports := [one for path in paths for one in export.folders(path, has_pods=bool(options.pods))]:
        return export.read(exports, options, progress)
    if days := [day for path in paths for day in planetlab.days(path)]:
        return planetlab.read(days, options, progress)
    if len(paths) > 1:
        raise TraceError(f"{paths[1]}: give one folder of machines at a time; several only of exports and days")
    files = (bitbrains.MACHINES, *(name for name, _ in bitbrains.TABLES.values()))
    if not any(find(paths[0], name) for name in files):
        raise TraceError(
            f"{paths[0]}: has no trace: neither {' nor '.join(files)} (machines), nor files such as 20110303.csv "
            f"(PlanetLab's days), nor {export.PODS} (headroom-agent db export); each may end in .gz or .xz"
        )
    return bitbrains.read(paths[0], options, progress)
