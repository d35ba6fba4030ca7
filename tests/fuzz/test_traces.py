"""Traces of a backtest: files that people wrote, cut and edited, and what a Prometheus may answer."""

import json
import shutil
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
from tests.fuzz.originals import SOUND
from tests.fuzz.strength import answer_or_refusal, are_lines, fuzz

START = 1_375_308_000.0
OPTIONS = Options(("cpu",), since=START, until=START + 3600.0)
POD = {"namespace": "shop", "pod": "a", "node": "n1"}
SERIES = {"metric": POD, "values": [[START + 300, "0.5"], [START + 600, "NaN"], [START + 900, "1e0"]]}
VECTOR = {"metric": {**POD, "created_by_kind": "Job"}, "value": [START, "2"]}
MATRIX = {"status": "success", "data": {"resultType": "matrix", "result": [SERIES]}}
INSTANT = {"status": "success", "data": {"resultType": "vector", "result": [VECTOR]}}


@st.composite
def files(draw: st.DrawFn) -> tuple[str, dict[str, bytes]]:
    """The name of a layout and its files, one of them damaged, or any bytes."""
    layout = draw(st.sampled_from(sorted(SOUND["traces"])))
    sound = {name: text.encode() for name, text in SOUND["traces"][layout].items()}
    hit = draw(st.sampled_from(sorted(sound)))
    text = damaged(SOUND["traces"][layout][hit]).map(lambda found: found.encode(errors="replace"))
    return layout, sound | {hit: draw(text | st.binary())}


def can_be_judged(found: list[Trace] | None) -> None:
    """Numbers where a series is, and only amounts."""
    for trace in found or ():
        assert np.isfinite(trace.times).all()
        there = np.full(trace.usage.shape, trace.lifetimes is None)
        for lifetime in trace.lifetimes or ():
            there[lifetime.start : lifetime.end, lifetime.series] = True
        assert ((trace.usage[there] >= 0.0) & np.isfinite(trace.usage[there])).all()
        assert np.isnan(trace.usage[~there]).all()
        are_lines(*trace.notes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces") / "t"


@fuzz(given=files())
def test_folder_is_read_or_refused_by_its_name(folder: Path, given: tuple[str, dict[str, bytes]]) -> None:
    layout, contents = given
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    options = Options(pods=(str(folder / "pods.json"),)) if layout == "kubectl" else Options()
    found = answer_or_refusal(lambda: read("trace", [str(folder)], options, lambda *_: None), TraceError, str(folder))
    can_be_judged(found)


class Answer:
    def __init__(self, body: bytes) -> None:
        self.body = body

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read(self, count: int) -> bytes:
        return self.body[:count]


class Server(Api):
    """A server that gives one answer to range queries and another one to all others."""

    def __init__(self, ranges: bytes, instants: bytes) -> None:
        super().__init__("http://p:1", OPTIONS)
        self._ranges, self._instants = ranges, instants
        self._opener: Any = self

    def open(self, request: Any, timeout: float) -> Answer:  # noqa: ANN401 - the library's
        assert timeout == OPTIONS.timeout_seconds
        return Answer(self._ranges if "query_range" in request.full_url else self._instants)


def answers(sound: object) -> st.SearchStrategy[bytes]:
    texts = damaged(json.dumps(sound)) | any_json().map(json.dumps)
    return texts.map(lambda one: one.encode(errors="replace")) | st.binary()


@fuzz(ranges=answers(MATRIX), instants=answers(INSTANT))
def test_prometheus_is_understood_or_refused_by_its_address(ranges: bytes, instants: bytes) -> None:
    server = Server(ranges, instants)
    can_be_judged(answer_or_refusal(lambda: read_from(server, OPTIONS, lambda *_: None), TraceError, "http://p:1"))
