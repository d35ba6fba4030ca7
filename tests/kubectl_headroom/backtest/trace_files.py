import gzip
import lzma
from collections.abc import Mapping, Sequence
from pathlib import Path

from kubectl_headroom.backtest.sources import Options, read
from kubectl_headroom.backtest.trace import Trace

START = 1_375_308_000
STEP = 300
MIB = 1 << 20
SIZES = "vm,cores,mem_capacity_mib,coverage\n"


def write(path: Path, text: str) -> Path:
    content = text.encode()
    if path.suffix == ".gz":
        content = gzip.compress(content)
    elif path.suffix == ".xz":
        content = lzma.compress(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def machines(folder: Path, rows: Sequence[str], sizes: Mapping[str, str], name: str = "cpu_millicores.csv") -> Path:
    """A folder of machines."""
    write(folder / name, "\n".join(rows) + "\n")
    write(folder / "vms.csv", SIZES + "".join(f"{one},{cells}\n" for one, cells in sizes.items()))
    return folder


def steady(count: int, *columns: float, start: int = START, step: int = STEP) -> list[str]:
    cells = ",".join(f"{value:g}" for value in columns)
    return [f"{start + step * number},{cells}" for number in range(count)]


def traces(kind: str, *places: Path | str, options: Options | None = None) -> list[Trace]:
    return read(kind, [str(place) for place in places], options or Options(), lambda _share, _text: None)


def trace(kind: str, *places: Path | str, options: Options | None = None) -> Trace:
    (result,) = traces(kind, *places, options=options or Options(resources=("cpu",)))
    return result
