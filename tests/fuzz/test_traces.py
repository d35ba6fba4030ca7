"""Traces of a backtest: files that people wrote, cut and edited, and what a Prometheus may answer."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from hypothesis import strategies as st

from headroom.backtest.sources import Options, read
from headroom.backtest.sources.prometheus import read_from
from headroom.backtest.sources.prometheus_api import Api
from headroom.backtest.trace import Trace, TraceError
from tests.fuzz.inputs import any_json, damaged
from tests.fuzz.strength import LONGEST_LINE, answer_or_refusal, fuzz
from tests.headroom.backtest.pod_files import pod
from tests.headroom.backtest.test_sources_pods import HEADER, snapshot
from tests.headroom.backtest.trace_files import SIZES, START, steady

MACHINES = {
    "cpu_millicores.csv": "\n".join(["ts,vm1,vm2", *steady(4, 500, 250), ""]),
    "mem_mib.csv": "\n".join(["ts,vm1,vm2", *steady(12, 500, 250, step=60), ""]),
    "vms.csv": SIZES + "1,2,1024,1.0\n2,1,2048,0.999\n",
}
EXPORT = {
    "cpu_millicores.csv": "\n".join(["ts,a,b", *steady(4, 500, 250), ""]),
    "pods.csv": HEADER + "a,n1,shop/a,shop/Job/a,prod,500,1000,64,\nb,n1,shop/b,,batch,,100,,128\n",
}
DAY = {"20110303.csv": "vm,s0,s1,s2\na,1,20,100\nb,3,,7\n"}
SNAPSHOTS = {
    "m.json": "".join(
        snapshot(5 * number, ("n1", {"shop/a": ("250m", "64Mi")}), ("n2", {"shop/b": ("1e0", "1G")}))
        for number in range(1, 4)
    ),
    "pods.json": json.dumps({"kind": "List", "items": [pod("shop/a", {"cpu": "1"}), pod("shop/b", priority="x")]}),
}
OPTIONS = Options(("cpu",), since=float(START), until=START + 3600.0)
USED = [[START + 300, "0.5"], [START + 600, "NaN"], [START + 900, "1e0"]]
SERIES = {"metric": {"namespace": "shop", "pod": "a", "node": "n1"}, "values": USED}
VECTOR = {"metric": {"namespace": "shop", "pod": "a", "node": "n1", "created_by_kind": "Job"}, "value": [START, "2"]}
MATRIX = {"status": "success", "data": {"resultType": "matrix", "result": [SERIES]}}
INSTANT = {"status": "success", "data": {"resultType": "vector", "result": [VECTOR]}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, bytes]], Path]:
    """Writes files into an empty folder, always the same."""
    root = tmp_path_factory.mktemp("traces") / "t"

    def make(files: dict[str, bytes]) -> Path:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        for name, content in files.items():
            (root / name).write_bytes(content)
        return root

    return make


def _files(sound: dict[str, str]) -> st.SearchStrategy[dict[str, bytes]]:
    """The files, one of them damaged, or any bytes."""

    def with_one(name: str) -> st.SearchStrategy[dict[str, bytes]]:
        others = {one: text.encode() for one, text in sound.items()}
        texts = damaged(sound[name]).map(lambda text: text.encode(errors="replace")) | st.binary()
        return texts.map(lambda content: others | {name: content})

    return st.sampled_from(sorted(sound)).flatmap(with_one)


def _sound(found: list[Trace] | None) -> None:
    """Whatever was read can be judged: numbers where a series is, and only amounts."""
    for trace in found or ():
        assert np.isfinite(trace.times).all()
        there = np.zeros(trace.usage.shape, dtype=np.bool_)
        for lifetime in trace.lifetimes or ():
            there[lifetime.start : lifetime.end, lifetime.series] = True
        there |= trace.lifetimes is None
        assert (trace.usage[there] >= 0.0).all()
        assert np.isfinite(trace.usage[there]).all()
        assert np.isnan(trace.usage[~there]).all()
        assert all("\n" not in note and len(note) <= LONGEST_LINE for note in trace.notes)


def _read(kind: str, *places: Path, **options: Any) -> list[Trace]:  # noqa: ANN401 - options
    return read(kind, [str(place) for place in places], Options(**options), lambda _share, _text: None)


@fuzz(files=_files(MACHINES) | _files(EXPORT) | _files(DAY))
def test_folders(folder: Callable[[dict[str, bytes]], Path], files: dict[str, bytes]) -> None:
    """A folder is read, or refused by the name of the folder or of the file in it."""
    root = folder(files)
    _sound(answer_or_refusal(lambda: _read("trace", root), TraceError, str(root)))


@fuzz(files=_files(SNAPSHOTS))
def test_snapshots(folder: Callable[[dict[str, bytes]], Path], files: dict[str, bytes]) -> None:
    """So are snapshots of NodeMetrics and the pods beside them."""
    root = folder(files)
    given = {"pods": (str(root / "pods.json"),)}
    _sound(answer_or_refusal(lambda: _read("nodemetrics", root / "m.json", **given), TraceError, str(root)))


def _answers(sound: Any) -> st.SearchStrategy[bytes]:  # noqa: ANN401 - JSON
    text = json.dumps(sound)
    return (damaged(text) | any_json().map(json.dumps)).map(lambda one: one.encode(errors="replace")) | st.binary()


class _Said:
    """An answer as the library gives it."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def read(self, count: int) -> bytes:
        """The answer."""
        return self.body[:count]


class _Server(Api):
    """A server that gives one answer to range queries and another one to all others."""

    def __init__(self, ranges: bytes, instants: bytes) -> None:
        super().__init__("http://p:1", OPTIONS)
        self._ranges, self._instants = ranges, instants
        self._opener: Any = self

    def open(self, request: Any, timeout: float) -> _Said:  # noqa: ANN401 - the library's
        """What is said to a request."""
        assert timeout == OPTIONS.timeout_seconds
        return _Said(self._ranges if "query_range" in request.full_url else self._instants)


@fuzz(ranges=_answers(MATRIX), instants=_answers(INSTANT))
def test_prometheus(ranges: bytes, instants: bytes) -> None:
    """Whatever a server answers is understood, or refused by its address."""
    server = _Server(ranges, instants)
    _sound(answer_or_refusal(lambda: read_from(server, OPTIONS, lambda *_: None), TraceError, "http://p:1"))
