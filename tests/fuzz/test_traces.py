"""Traces of a backtest: files that people wrote, cut and edited."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from kubectl_headroom.backtest.sources import Options, read
from kubectl_headroom.backtest.trace import Trace, TraceError
from tests.fuzz.inputs import damaged
from tests.fuzz.originals import SOUND
from tests.fuzz.strength import answer_or_refusal, are_lines, fuzz


@st.composite
def files(draw: st.DrawFn) -> tuple[str, dict[str, bytes]]:
    """The name of a layout and its files, one of them damaged, or any bytes."""
    layout = draw(st.sampled_from(sorted(SOUND["traces"])))
    sound = {name: text.encode() for name, text in SOUND["traces"][layout].items()}
    hit = draw(st.sampled_from(sorted(sound)))
    text = damaged(SOUND["traces"][layout][hit]).map(lambda found: found.encode(errors="replace"))
    return layout, sound | {hit: draw(text | st.binary())}


def can_be_evaluated(found: list[Trace] | None) -> None:
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
    result = answer_or_refusal(lambda: read("trace", [str(folder)], options, lambda *_: None), TraceError, str(folder))
    can_be_evaluated(result)
