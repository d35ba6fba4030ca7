"""`headroom-agent capture`: a machine's files on disk, such that they can be replayed."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.capture import capture, replay
from agent.capture.capture import CannotCapture, CaptureWriter, Timing, plan
from agent.host.paths import HostPaths
from headroom.runtime.options import WrongSetting
from tests.agent.recorded import KINDS, RecordedMachine

Make = Callable[[str], RecordedMachine]


def _take(machine: RecordedMachine, folder: Path, *names: str) -> None:
    recorder = CaptureWriter(HostPaths.under(machine.live), folder)
    for name in names:
        recorder.take(name)
        time.sleep(0.025)  # readings closer together than 20 ms are no rate


@pytest.mark.parametrize(
    ("seconds", "instants"),
    [
        (1, [0, 1]),
        (2, [0, 1, 2]),
        (3, [0, 1, 2, 3]),
        (10, [0, 1, 2, 10]),
        (35, [0, 1, 2, 10, 20, 30, 35]),
        (600, [0, 1, 2, 10, 60, 110, 160, 210, 260, 310, 360, 410, 460, 510, 560, 600]),
    ],
)
def test_instants_are_planned(seconds: int, instants: list[int]) -> None:
    """Close together at first, then spread over the time that was asked for: never more than sixteen."""
    assert plan(seconds) == instants
    assert all(len(plan(number)) <= 16 for number in range(1, 2000))


@pytest.mark.parametrize("kind", KINDS)
def test_capture_can_be_replayed(kind: str, recorded: Make, tmp_path: Path) -> None:
    """What was captured shows the same machine: its kind, its pods, their memory; links are links."""
    machine, folder = recorded(kind), tmp_path / "capture"
    _take(machine, folder, "t000", "t001")
    found = replay.as_json(replay.replay(folder))
    expected = machine.expected
    assert found["detected"] == {"cgroup": expected["cgroup_version"], "driver": expected["driver"]}
    interval = found["intervals"]["t000-t001"]
    assert interval["node"]["memoryBytes"] == expected["instants"]["t000"]["node"]["memory_used_bytes"]
    assert interval["pods"][machine.uid("g")]["cpuMilli"] == 0  # a machine that stands still
    links = {link.name for link in (folder / "t001/sys/fs/cgroup").iterdir() if link.is_symlink()}
    assert links == ({"cpu", "cpuacct"} if kind == "v1vm-systemd" else set())


def test_files_are_byte_for_byte(recorded: Make, tmp_path: Path) -> None:
    """Every counter is as the kernel wrote it, and its reading lies inside of the instant's."""
    machine, folder = recorded("v2-systemd"), tmp_path / "capture"
    _take(machine, folder, "t000")
    facts = json.loads((folder / "t000/capture.json").read_text())
    lines = [line.split("\t") for line in (folder / "t000/times.tsv").read_text().splitlines()]
    paths = [path for _, _, path in lines]
    assert {"/proc/stat", f"/sys/fs/cgroup{machine.pod_path('g')}/memory.stat"} <= set(paths)
    assert len(paths) == len(set(paths))
    for start, end, path in lines:
        assert (folder / "t000" / path[1:]).read_bytes() == (machine.live / path[1:]).read_bytes()
        assert facts["monotonic_ns"] <= int(start) <= int(end) <= facts["hot_end_monotonic_ns"]
    assert facts["hot_end_monotonic_ns"] <= facts["end_monotonic_ns"]
    assert facts["files"] >= len(lines)
    assert (facts["clk_tck"], facts["unreadable"]) == (os.sysconf("SC_CLK_TCK"), 0)
    assert facts.keys() >= {"boottime_ns", "wall_ns", "wall_utc", "page_size"}


def test_numbers_tell_cgroups_apart(recorded: Make, tmp_path: Path) -> None:
    """A pod that was made again between two instants is known by the number of its folder."""
    machine, folder = recorded("v2-cgroupfs"), tmp_path / "capture"
    pod = machine.live / "sys/fs/cgroup" / machine.pod_path("g").lstrip("/")
    _take(machine, folder, "t000")
    pod.rename(pod.with_name("old"))
    pod.mkdir()
    for file in pod.with_name("old").iterdir():
        if file.is_file():
            (pod / file.name).write_bytes(file.read_bytes())
    _take(machine, folder, "t001")
    gaps = replay.as_json(replay.replay(folder))["intervals"]["t000-t001"]["gaps"]
    assert {"uid": machine.uid("g"), "metric": "cpu", "reason": "recreated"} in gaps


def test_mounts_are_cut(recorded: Make, tmp_path: Path) -> None:
    """Of the mounts only /proc and the cgroups are recorded, and nothing of any process."""
    machine, folder = recorded("v2-cgroupfs"), tmp_path / "capture"
    (machine.live / "proc/self").mkdir()
    (machine.live / "proc/self/environ").write_text("TOKEN=secret")
    (machine.live / "proc/1").mkdir()
    (machine.live / "proc/1/cmdline").write_text("--password=secret")
    kept = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\nproc /proc proc rw 0 0\n"
    (machine.live / "proc/mounts").write_text(f"//secret/share /mnt cifs user=secret 0 0\n{kept}")
    _take(machine, folder, "t000")
    assert (folder / "t000/proc/mounts").read_text() == kept
    for path in folder.rglob("*"):
        assert not path.is_file() or b"secret" not in path.read_bytes()


def test_unreadable_files_are_listed(recorded: Make, tmp_path: Path) -> None:
    """A file that cannot be read is in errors.tsv, and the rest is recorded."""
    machine, folder = recorded("v2-cgroupfs"), tmp_path / "capture"
    loop = machine.live / "proc/meminfo"
    loop.unlink()
    loop.symlink_to(loop)
    _take(machine, folder, "t000")
    assert (folder / "t000/errors.tsv").read_text() == "/proc/meminfo\tToo many levels of symbolic links\n"
    assert json.loads((folder / "t000/capture.json").read_text())["unreadable"] == 1
    assert (folder / "t000/proc/stat").exists()


def test_command_says_how_it_goes(
    recorded: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each instant is reported as it comes, and finally how to pack them; the agent's own variables name the host."""
    machine, folder = recorded("v2-cgroupfs-nomem"), tmp_path / "new/capture"
    monkeypatch.setenv("HEADROOM_AGENT_HOST_ROOT", str(machine.live))
    assert capture.main([str(folder), "--seconds", "1"]) == 0
    out, err = capsys.readouterr()
    assert [line.partition(":")[0] for line in err.splitlines()] == ["t000 of t001", "t001 of t001"]
    assert out == f"Recorded in {folder}. To pack it: tar -C {folder.parent} -cJf capture.tar.xz capture\n"
    assert sorted(path.name for path in folder.iterdir()) == ["t000", "t001"]
    assert (folder / "t000/proc/stat").read_bytes() == (machine.live / "proc/stat").read_bytes()


def test_waits_are_measured_from_start(recorded: Make, tmp_path: Path) -> None:
    """Each instant is due at its own second, however long the one before took."""
    now, waits = 100.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    def say(_: str) -> None:
        nonlocal now
        now += 0.25  # what taking an instant took

    paths = HostPaths.under(recorded("v2-cgroupfs-nomem").live)
    capture.capture(paths, tmp_path / "c", 10, say, Timing(clock=lambda: now, sleep=sleep))
    assert waits == [0, 0.75, 0.75, 7.75]


def test_folder_must_be_new(recorded: Make, tmp_path: Path) -> None:
    """A folder with something in it is not written to."""
    (tmp_path / "mine").touch()
    with pytest.raises(CannotCapture, match=f"{tmp_path} is not empty: give a new folder"):
        capture.capture(HostPaths.under(recorded("v2-cgroupfs").live), tmp_path, 1, lambda _: None)


def test_unwritable_folder_is_named(recorded: Make, tmp_path: Path) -> None:
    """A folder that cannot be made is named, with the way out."""
    (tmp_path / "file").touch()
    with pytest.raises(CannotCapture, match=r"cannot write .*/file/c: Not a directory; give another folder"):
        capture.capture(HostPaths.under(recorded("v2-cgroupfs").live), tmp_path / "file/c", 1, lambda _: None)


def test_half_an_instant_is_removed(recorded: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk is full nothing half is left behind, and the folder is named."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    machine, folder = recorded("v2-cgroupfs"), tmp_path / "c"
    monkeypatch.setattr(capture, "_write", full)
    with pytest.raises(CannotCapture, match="c: No space left on device"):
        capture.capture(HostPaths.under(machine.live), folder, 1, lambda _: None)
    assert list(folder.iterdir()) == []


def test_no_cgroups_is_one_line(tmp_path: Path) -> None:
    """A machine without cgroups at that place says where they should be."""
    with pytest.raises(CannotCapture, match=r"cannot read the cgroup folder .*--host-root"):
        capture.main([str(tmp_path / "c"), "--host-root", str(tmp_path / "nowhere")])


@pytest.mark.parametrize("seconds", ["0", "-1", "x", "1.5", "86401", "9" * 30])
def test_wrong_seconds_are_named(seconds: str, tmp_path: Path) -> None:
    """How long is a whole number of seconds."""
    with pytest.raises(WrongSetting, match="--seconds"):
        capture.main([str(tmp_path / "c"), f"--seconds={seconds}"])
