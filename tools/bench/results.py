"""What was measured: a JSON file of all parts, and how it reads as Markdown."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import psutil

from tools.bench.machine import ROOT
from tools.bench.measurement import Grid, Item, Measurement, Picture

FILE: Final = "results.json"
HEAD: Final = ("what", "budget", "reference", "measured", "kept")
_VERSION: Final = 2
_KEPT: Final = {True: "yes", False: "no", None: ""}
_KINDS: Final[Mapping[str, type[Item]]] = {"measurement": Measurement, "grid": Grid, "picture": Picture}

Record = dict[str, Any]
"""A part's newest results: `at`, `seconds`, `commit`, `machine` (one line), `items` (JSON), perhaps a `note`."""


def load(folder: Path) -> dict[str, Record]:
    """The newest record of each part; nothing where there is no file.

    Raises:
        ValueError: the file is not one of ours.
    """
    path = folder / FILE
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        version, parts = found["version"], dict(found["parts"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not what `make bench` writes ({error}): move it away") from error
    if version != _VERSION:
        raise ValueError(f"{path} is not what `make bench` writes (its version is {version}): move it away")
    return parts


def save(folder: Path, parts: Mapping[str, Record]) -> None:
    """Write the file, and each picture beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = {}
    for name, record in sorted(parts.items()):
        items = []
        for one in record["items"]:
            if one.get("svg"):
                (folder / f"{one['name']}.svg").write_text(one["svg"], encoding="utf-8")
            items.append({**one, "svg": ""} if one["kind"] == "picture" else one)
        kept[name] = {**record, "items": items}
    text = json.dumps({"version": _VERSION, "parts": kept}, indent=1, ensure_ascii=False)
    (folder / FILE).write_text(f"{text}\n", encoding="utf-8")


def plain(item: Item) -> dict[str, Any]:
    """An item as JSON."""
    kind = type(item).__name__.lower()
    return {"kind": kind, **{key: value for key, value in asdict(item).items() if value is not None}}


def item(found: Mapping[str, Any]) -> Item:
    """An item of JSON."""
    return _KINDS[found["kind"]](**{key: value for key, value in found.items() if key != "kind"})


def commit() -> str:
    """The state of the sources; empty without their history."""
    try:
        words = ["git", "describe", "--always", "--dirty"]
        return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def machine() -> str:
    """What it is measured on, in one line, without its name."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = f"{psutil.virtual_memory().total / (1 << 30):.1f} GiB"
    system = f"{platform.system()} {platform.release().split('-')[0]}, Python {platform.python_version()}"
    return f"{platform.machine()} {' '.join(models[:1])}: {os.cpu_count()} CPUs, {memory}, {system}"


def cells(items: Iterable[Item]) -> list[list[str]]:
    """Lines of the one table, without its head."""
    return [
        [one.what, one.budget, one.reference, one.measured, _KEPT[one.within]]
        for one in items
        if isinstance(one, Measurement)
    ]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as a Markdown table; the first row is its head."""
    lines = [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    return "\n".join([lines[0], f"|{'---|' * len(rows[0])}", *lines[1:]])


def sections(items: Sequence[Item], pictures: str = "") -> str:
    """All that a part measured, as Markdown.

    Args:
        items: what it yielded.
        pictures: where its pictures are, as the page links to them.
    """
    parts = [markdown([HEAD, *rows])] if (rows := cells(items)) else []
    for one in items:
        if isinstance(one, Grid):
            parts.append(f"{one.title}\n\n{markdown(one.cells)}")
        elif isinstance(one, Picture):
            parts.append(f"![{one.title}]({pictures}{one.name}.svg)")
    return "\n\n".join(parts)
