"""What was measured, in a file: `results.json`, written anew after each part, so that a run can go on later."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tools.bench.hardware import Description
from tools.bench.measurement import Grid, Item, Measurement, Picture

FILE: Final = "results.json"
VERSION: Final = 1
MEASURED: Final = "measured"
"""What a run says of a part that came to its end."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a part measured, when, and on what. Pictures are in files beside, so that theirs have no drawing here."""

    at: str
    """When it began, as 2026-01-02T03:04:05Z."""
    seconds: float
    """How long it took. [s]"""
    commit: str
    """The state of the sources."""
    machine: Description
    """What it ran on."""
    busy_percent: float | None
    """What the machine did just before, in percent of one core; None where nobody looked."""
    items: Sequence[Item]
    """What came out."""
    note: str = ""
    """What the reader has to know besides."""


@dataclass(slots=True)
class Run:
    """A call of `make bench`."""

    began: str
    """When."""
    names: Sequence[str]
    """The parts that it was asked for."""
    quick: bool
    """Whether its figures mean nothing."""
    outcomes: dict[str, str] = field(default_factory=dict)
    """What became of each part: `MEASURED`, or why not; parts that were not reached are missing."""

    @property
    def left(self) -> list[str]:
        """The parts that are not measured yet."""
        return [name for name in self.names if self.outcomes.get(name) != MEASURED]


@dataclass(slots=True)
class Results:
    """Everything in the file."""

    parts: dict[str, Record] = field(default_factory=dict)
    """The newest record of each part that came to its end."""
    run: Run | None = None
    """The newest run."""

    @classmethod
    def load(cls, folder: Path) -> "Results":
        """What is in a folder; nothing where there is no file.

        Raises:
            ValueError: the file is not one of ours.
        """
        path = folder / FILE
        if not path.exists():
            return cls()
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            _check(found["version"])
            run = found["run"] and Run(**found["run"])
            return cls({name: _record(one) for name, one in found["parts"].items()}, run)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not what `make bench` writes ({error}): move it away") from error

    def save(self, folder: Path) -> None:
        """Write the file; whoever reads it sees the old one or the new one."""
        folder.mkdir(parents=True, exist_ok=True)
        parts = {name: _plain(record) for name, record in sorted(self.parts.items())}
        content = {"version": VERSION, "run": self.run and asdict(self.run), "parts": parts}
        whole = folder / f".{FILE}.{os.getpid()}"
        whole.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        whole.replace(folder / FILE)


def _check(version: int) -> None:
    if version != VERSION:
        raise ValueError(f"its version is {version}, and not {VERSION}")


def plain(item: Item) -> dict[str, Any]:
    """An item as JSON."""
    kind = type(item).__name__.lower()
    return {"kind": kind, **{key: value for key, value in asdict(item).items() if value is not None}}


def item(found: dict[str, Any]) -> Item:
    """An item of JSON.

    Raises:
        KeyError: it is of no kind that there is.
        TypeError: it has not the fields of its kind.
    """
    kinds: dict[str, type[Item]] = {"measurement": Measurement, "grid": Grid, "picture": Picture}
    fields = dict(found)
    made: Item = kinds[fields.pop("kind")](**fields)
    return made


def _plain(record: Record) -> dict[str, Any]:
    items = [plain(Picture(one.name, one.title, "") if isinstance(one, Picture) else one) for one in record.items]
    return {**asdict(record), "items": items}


def _record(found: dict[str, Any]) -> Record:
    return Record(**{**found, "items": tuple(item(one) for one in found["items"])})
