"""Recordings of a machine, as an administrator sends them: unpacked by hand, cut, edited."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies as st

from agent.capture.recording import NotARecording
from agent.capture.replay import as_json, as_table, replay
from agent.samples import REASONS
from tests.fuzz.inputs import any_json, damaged, kernel_texts
from tests.fuzz.originals import MEMINFO, STAT, V2_CPU_STAT, V2_MEMORY_STAT
from tests.fuzz.strength import LONGEST_LINE, answer_or_refusal, fuzz

POD = "sys/fs/cgroup/kubepods/burstable/pod0f7b5cd5-2f3a-44b2-9d4e-3c3a0a5f7c11"
FACTS = json.dumps({"monotonic_ns": 10**12, "boottime_ns": 10**12, "clk_tck": 100})
TIMES = "".join(
    f"{10**12 + number}\t{10**12 + number + 9}\t/{name}\n"
    for number, name in enumerate(("proc/stat", "proc/meminfo", f"{POD}/cpu.stat", f"{POD}/memory.stat"))
)
INODES = f"77\t/{POD}\n78\t/sys/fs/cgroup\n"
FILES = {
    "proc/stat": STAT,
    "proc/meminfo": MEMINFO,
    "sys/fs/cgroup/cgroup.controllers": "cpu memory",
    f"{POD}/cpu.stat": V2_CPU_STAT,
    f"{POD}/memory.stat": V2_MEMORY_STAT,
    "capture.json": FACTS,
    "times.tsv": TIMES,
    "cgroups.tsv": INODES,
}
CONTENTS = kernel_texts(*FILES.values()) | damaged(FACTS, TIMES, INODES) | any_json().map(json.dumps) | st.none()
ACCIDENTS = st.tuples(st.sampled_from(("t000", "t001")), st.sampled_from(sorted(FILES)), CONTENTS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes a sound recording of two instants, always in the same place."""
    root = tmp_path_factory.mktemp("recording") / "r"

    def make() -> Path:
        shutil.rmtree(root, ignore_errors=True)
        for instant in ("t000", "t001"):
            for name, text in FILES.items():
                file = root / instant / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text.replace("1000000000", "1000000001") if instant == "t001" else text)
        return root

    return make


@fuzz(accidents=st.lists(ACCIDENTS, max_size=4))
def test_recording(folder: Callable[[], Path], accidents: list[tuple[str, str, str | None]]) -> None:
    """A recording is measured as far as it goes, with a reason for each gap, or refused by the name of its folder."""
    root = folder()
    for instant, name, content in accidents:
        if content is None:
            (root / instant / name).unlink(missing_ok=True)
        else:
            (root / instant / name).write_text(content, encoding="utf-8", errors="replace")
    found = answer_or_refusal(lambda: replay(root), NotARecording, str(root))
    if found is None:
        return
    assert all(len(problem) <= LONGEST_LINE and "\n" not in problem for problem in found.problems)
    shown = json.loads(json.dumps(as_json(found)))
    assert shown["intervals"].keys() == {"t000-t001"}
    for interval in found.intervals:
        amounts = [amount for values in interval.values.values() for amount in values.values()]
        assert all(math.isfinite(amount) and 0.0 <= amount < 2.0**53 for amount in amounts)
        assert all(reason in REASONS for _, _, reason in interval.gaps)
    assert list(as_table(found))


def test_no_temporary_folder_is_one_line(folder: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be written, as in a container, the way out is named."""
    root = folder()
    monkeypatch.setattr("tempfile.tempdir", str(root / "none"))
    with pytest.raises(NotARecording, match="TMPDIR"):
        replay(root)
