import json
import shutil
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.capture import replay
from agent.capture.recording import NotARecording
from tests.agent.made_recording import A, B, Made, gaps, shown
from tests.agent.recorded import KINDS

Unpacked = Callable[[str], Path]


@pytest.mark.parametrize("kind", KINDS)
def test_recordings_agree_with_expected(kind: str, unpacked: Unpacked) -> None:
    """Every number of every interval equals the same formula's result elsewhere, from the same files and times."""
    folder = unpacked(kind)
    expected, result = json.loads((folder / "expected.json").read_text()), shown(folder)
    assert result["detected"] == {"cgroup": expected["cgroup_version"], "driver": expected["driver"]}
    assert list(result["intervals"]) == ["t000-t001", "t001-t002", "t002-t010", "t010-t060", "t060-t061"]
    pods = [item for item in expected["objects"].values() if item["type"] == "pod"]
    for name, interval in result["intervals"].items():
        wanted, end = expected["intervals"][name], expected["instants"][name.partition("-")[2]]
        steal = _steal(folder, name) / wanted["seconds"] * 10  # which their formula counts, and ours does not
        assert interval["node"]["cpuMilli"] + steal == pytest.approx(wanted["node_cpu_millicores"], abs=0.06)
        assert interval["node"]["memoryBytes"] == end["node"]["memory_used_bytes"]
        for pod in pods:
            milli = wanted["cgroups"].get(pod["cgroup"], {}).get("cpu_millicores")
            memory = end["cgroups"].get(pod["cgroup"], {}).get("memory")
            _agrees(interval, pod["pod_uid"], milli, memory)


def _steal(folder: Path, interval: str) -> int:
    first, last = ((folder / name / "proc/stat").read_text().split()[8] for name in interval.split("-"))
    return int(last) - int(first)


def _agrees(interval: Mapping[str, Any], uid: str, milli: float | None, memory: Mapping[str, int] | None) -> None:
    result = interval["pods"].get(uid, {})
    if milli is None:
        assert "cpuMilli" not in result
    else:
        assert result["cpuMilli"] == pytest.approx(milli, abs=0.006), uid
    if memory is None:
        assert "memoryBytes" not in result
        return
    assert result["memoryBytes"] == pytest.approx(memory["anon_plus_shmem_bytes"], abs=1 << 20), uid
    page_cache = result["memoryWithPageCacheBytes"] - result["memoryBytes"]
    assert page_cache == memory["active_file_bytes"] + memory["inactive_file_bytes"]


@pytest.mark.parametrize("kind", KINDS)
def test_pod_made_again_is_a_gap_although_its_counter_rose(kind: str, unpacked: Unpacked, tmp_path: Path) -> None:
    for name in ("t000", "t061"):
        (tmp_path / name).symlink_to(unpacked(kind) / name)
    (interval,) = shown(tmp_path)["intervals"].values()
    again, gone = (f"0a1b2c3d-0001-4000-8000-0000000000{end}" for end in ("b4", "b5"))
    assert gaps(interval, again) == ["recreated"]
    assert gaps(interval, gone) == ["vanished"]
    assert gone not in interval["pods"]
    assert "cpuMilli" not in interval["pods"].get(again, {})
    remaining = {uid for uid in interval["pods"] if uid != again}
    assert len(remaining) == 8
    assert all("cpuMilli" in interval["pods"][uid] for uid in remaining)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    recording = Made(tmp_path / "made")
    recording.instant(0)
    recording.instant(1)
    return recording


def test_made_recording_is_whole(made: Made) -> None:
    """Half a core each, two cores of the node; a uid of a static pod stays unchanged."""
    pod = {"cpuMilli": 500.0, "memoryBytes": 123, "memoryWithPageCacheBytes": 4623}
    assert shown(made.folder) == {
        "intervals": {
            "t000-t001": {
                "node": {"cpuMilli": 2000.0, "memoryBytes": 8192},
                "system": {"cpuMilli": 1000.0, "memoryBytes": 8192 - 246},
                "pods": {A: pod, B: pod},
                "gaps": [],
            }
        },
        "detected": {"cgroup": 2, "driver": "cgroupfs"},
    }


def test_rate_of_a_counter_is_over_the_time_between_its_own_readings(made: Made) -> None:
    times = made.folder / "t001/times.tsv"
    at = 1_001_250_000_000
    times.write_text(times.read_text() + f"{at}\t{at}\t/sys/fs/cgroup/kubepods/pod{A}/cpu.stat\n")
    pods = made.interval()["pods"]
    assert pods[A]["cpuMilli"] == pytest.approx(500 / 1.249999)
    assert pods[B]["cpuMilli"] == 500


def test_missing_times_fall_back(made: Made) -> None:
    """Without times.tsv the instant's start counts, and that is said; without both there is no rate."""
    (made.folder / "t001/times.tsv").unlink()
    result = replay.replay(made.folder)
    assert result.problems == ["t001/times.tsv cannot be used: No such file or directory"]
    assert replay.as_json(result)["intervals"]["t000-t001"]["pods"][A]["cpuMilli"] == pytest.approx(500, rel=1e-5)
    (made.folder / "t001/capture.json").write_text("{half")
    result = replay.replay(made.folder)
    assert "t001/capture.json cannot be used: it is not a JSON object" in result.problems
    assert "t001 has no time of reading: no rates are computed from it" in result.problems
    interval = replay.as_json(result)["intervals"]["t000-t001"]
    assert (gaps(interval, "node"), gaps(interval, A)) == (["clock"], ["clock"])
    assert interval["pods"][A] == {"memoryBytes": 123, "memoryWithPageCacheBytes": 4623}


def test_lines_of_no_times_are_passed_over_and_counted(made: Made) -> None:
    times = made.folder / "t000/times.tsv"
    times.write_text(times.read_text() + "x\ty\tz\n1\n9\t1\t/proc/stat\n-1\t5\t/proc/stat\n")
    result = replay.replay(made.folder)
    assert result.problems == ["t000/times.tsv has 4 lines that are no start, end and path"]
    assert replay.as_json(result)["intervals"]["t000-t001"]["gaps"] == []


def test_suspension_is_a_gap_of_cpu_and_not_of_memory(made: Made) -> None:
    made.instant(2, slept=30)
    made.instant(3, slept=30)
    asleep = made.interval("t001-t002")
    assert [gaps(asleep, entry) for entry in ("node", A, B)] == [["suspended"]] * 3
    assert asleep["node"] == {"memoryBytes": 8192}
    assert made.interval("t000-t001")["gaps"] == made.interval("t002-t003")["gaps"] == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("usage_usec 1\n", "recreated"),  # another cgroup: one was never at less
        ("usage_usec 18446744073709551615\n", "implausible"),
    ],
)
def test_bad_counter_of_a_pod_is_a_gap_of_its_cpu_alone(text: str, reason: str, made: Made) -> None:
    made.instant(1)
    for seconds in (0, 1):  # so that a counter may fall
        file = made.folder / f"t{seconds:03d}/sys/fs/cgroup/kubepods/pod{A}/cpu.stat"
        file.write_text(f"usage_usec {1000 + seconds}\n")
    file.write_text(text)
    interval = made.interval()
    assert gaps(interval, A) == [reason]
    assert interval["pods"][A] == {"memoryBytes": 123, "memoryWithPageCacheBytes": 4623}
    assert interval["pods"][B]["cpuMilli"] == 500
    assert interval["system"] == {"memoryBytes": 8192 - 246}


@pytest.mark.parametrize("text", ["usage_usec", None])
@pytest.mark.parametrize(("file", "lost"), [(f"sys/fs/cgroup/kubepods/pod{A}/cpu.stat", A), ("proc/stat", "node")])
def test_lost_reading_ends_two_intervals(file: str, lost: str, text: str | None, made: Made) -> None:
    """An interval that begins with a file that cannot be used has no rate: one of a longer time is not its own."""
    made.instant(2)
    path = made.folder / "t001" / file
    path.unlink() if text is None else path.write_text(text)
    reason = "unreadable" if text is None else "malformed"
    assert [gaps(made.interval(name), lost) for name in ("t000-t001", "t001-t002")] == [[reason], ["first-reading"]]
    later = made.interval("t001-t002")
    assert "cpuMilli" not in later["system"] | {"node": later["node"], **later["pods"]}[lost]
    assert later["pods"][B]["cpuMilli"] == 500


def test_pod_whose_cgroup_moved_has_another_although_its_counter_rose(made: Made) -> None:
    folder = made.folder / "t001/sys/fs/cgroup/kubepods"
    (folder / f"pod{A}").rename(folder / f"burstable/pod{A}")
    assert gaps(made.interval(), A) == ["recreated"]


def test_instants_in_folder_of_their_own(made: Made, tmp_path: Path) -> None:
    """The folder that an archive was unpacked into will do, too; of several recordings none is chosen."""
    outer = tmp_path / "unpacked"
    shutil.copytree(made.folder, outer / "v2")
    (outer / "notes").mkdir()
    assert shown(outer) == shown(made.folder)
    shutil.copytree(made.folder, outer / "other")
    with pytest.raises(NotARecording, match="holds no instants"):
        shown(outer)


@pytest.mark.parametrize("file", ["proc/stat", "proc/meminfo"])
def test_missing_node_file_is_a_gap_of_node_and_system_and_not_of_pods(file: str, made: Made) -> None:
    (made.folder / "t001" / file).unlink()
    result = replay.replay(made.folder)
    assert result.problems == [f"t001: /{file}: No such file or directory"]
    interval = replay.as_json(result)["intervals"]["t000-t001"]
    metric, key = ("cpu", "cpuMilli") if file == "proc/stat" else ("memory", "memoryBytes")
    assert gaps(interval, "node", metric) == ["unreadable"]
    assert gaps(interval, "system", metric) == ["input-missing"]
    assert key not in interval["node"] | interval["system"]
    assert interval["pods"][A]["cpuMilli"] == 500


def test_uids_are_restored(tmp_path: Path) -> None:
    """Dashes return where the systemd driver removed them; a uid of another form stays unchanged."""
    recording = Made(tmp_path)
    paths = {
        A: f"kubepods.slice/kubepods-pod{A.replace('-', '_')}.slice",
        B: f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{B}.slice",
        "kube.apiserver-7": "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podkube.apiserver_7.slice",
        "UPPER_case": "kubepods/burstable/podUPPER_case",  # of the other driver, at the same time
    }
    for seconds in (0, 1):
        recording.instant(seconds, paths=paths)
    assert recording.interval()["pods"].keys() == paths.keys()
    assert shown(tmp_path)["detected"] == {"cgroup": 2, "driver": "systemd"}


@pytest.mark.parametrize(("inodes", "gap"), [((7, 8), ["recreated"]), ((7, 7), [])])
def test_recorded_numbers_decide_for_any_counters(inodes: tuple[int, int], gap: list[str], made: Made) -> None:
    for name, inode in zip(("t000", "t001"), inodes, strict=True):
        line = f"{inode}\t/sys/fs/cgroup/kubepods/pod{A}\n"
        (made.folder / name / "cgroups.tsv").write_text(f"half\n{line}")
    (made.folder / f"t001/sys/fs/cgroup/kubepods/pod{A}/memory.peak").write_text("1\n")
    (made.folder / f"t000/sys/fs/cgroup/kubepods/pod{A}/memory.peak").write_text("2\n")
    assert gaps(made.interval(), A) == gap


def test_instants_are_ordered_by_seconds_and_other_folders_ignored(made: Made) -> None:
    for seconds in (999, 1000, 10):
        made.instant(seconds)
    for entry in ("t-1", "tmp", "t01x"):
        (made.folder / entry).mkdir()
    names = ["t000-t001", "t001-t010", "t010-t999", "t999-t1000"]
    assert list(shown(made.folder)["intervals"]) == names


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "holds no instants"),
        (["t000"], r"one instant only \(t000\)"),
        (["t000", "t001"], "no instant can be used: cannot read the cgroup folder .*/t000/sys/fs/cgroup: No such file"),
    ],
)
def test_no_recording_is_one_line(names: list[str], message: str, tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).mkdir()
    with pytest.raises(NotARecording, match=message):
        replay.replay(tmp_path)


def test_missing_folder_bad_archive_and_empty_archive_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotARecording, match=r"cannot read .*nowhere: No such file"):
        replay.replay(tmp_path / "nowhere")
    (tmp_path / "x.tar.xz").touch()
    with pytest.raises(NotARecording, match=r"cannot unpack .*/x.tar.xz: "):
        replay.replay(tmp_path / "x.tar.xz")
    with tarfile.open(tmp_path / "empty.tar", "w") as archive:
        archive.add(tmp_path / "x.tar.xz", "notes/x")
    with pytest.raises(NotARecording, match=f"{tmp_path}/empty.tar holds no instants"):
        replay.replay(tmp_path / "empty.tar")


def test_command_prints_json_and_problems_to_standard_error(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    (made.folder / "t001/times.tsv").unlink()
    assert replay.main([str(made.folder), "-o", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == shown(made.folder)
    assert err == "headroom-agent replay: t001/times.tsv cannot be used: No such file or directory\n"


def test_command_prints_a_table_with_missing_values_in_words(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    (made.folder / "t001/proc/stat").unlink()
    assert replay.main([str(made.folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "cgroup v2; pods by the cgroupfs driver"
    assert lines[2].split() == ["t000-t001", "CPU", "MEMORY", "WITH", "CACHE", "THROTTLED"]
    assert lines[5].split() == [A, "500.0m", "0.0Mi", "0.0Mi", "-"]
    assert "  no cpu of node: unreadable. The agent has no permission to read the file, or reading failed." in lines
