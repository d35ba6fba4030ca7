import json
import os
import resource
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.capture import capture, replay
from agent.capture.capture import CannotCapture, plan
from agent.host.procfs import HostPaths
from headroom.runtime.options import WrongSetting
from tests.agent.recorded import KINDS, Make, RecordedMachine


def _take(machine: RecordedMachine, folder: Path, between: Callable[[], object] = lambda: None) -> Path:
    """Record two instants with a change between them, and unpack the capture."""
    target = folder.with_suffix(".tar")
    paths = HostPaths.under(machine.live)
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        time.sleep(0.025)  # readings closer together than 20 ms are no rate
        pauses.append(seconds)
        if len(pauses) == 2:
            between()

    capture.capture(paths, target, 1, lambda _: None, sleep=sleep)
    with tarfile.open(target) as archive:
        archive.extractall(folder, filter="data")
    return target


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
    """Instants are close together at first, then spread over the requested time: never more than sixteen."""
    assert plan(seconds) == instants
    assert all(len(plan(number)) <= 16 for number in range(1, 2000))


@pytest.mark.parametrize("kind", KINDS)
def test_capture_shows_the_same_machine_and_keeps_links(kind: str, recorded: Make, tmp_path: Path) -> None:
    machine, folder = recorded(kind), tmp_path / "capture"
    target = _take(machine, folder)
    result = replay.as_json(replay.replay(target))
    assert result == replay.as_json(replay.replay(folder))  # unpacked by hand
    expected = machine.expected
    assert result["detected"] == {"cgroup": expected["cgroup_version"], "driver": expected["driver"]}
    interval = result["intervals"]["t000-t001"]
    assert interval["node"]["memoryBytes"] == expected["instants"]["t000"]["node"]["memory_used_bytes"]
    assert interval["pods"][machine.uid("g")]["cpuMilli"] == 0  # an idle machine
    links = {link.name for link in (folder / "t001/sys/fs/cgroup").iterdir() if link.is_symlink()}
    assert links == ({"cpu", "cpuacct"} if kind == "v1vm-systemd" else set())


def test_size_of_zfs_cache_is_recorded_and_replayed(recorded: Make, tmp_path: Path) -> None:
    """A replay leaves the ARC above its minimum out of memory, as the agent does."""
    machine, folder = recorded("v2-systemd"), tmp_path / "capture"
    arcstats = machine.live / "proc/spl/kstat/zfs/arcstats"
    arcstats.parent.mkdir(parents=True)
    arcstats.write_text(f"size 4 {40 << 20}\nc_min 4 {8 << 20}\n")
    node = replay.as_json(replay.replay(_take(machine, folder)))["intervals"]["t000-t001"]["node"]
    assert node["memoryBytes"] == machine.expected["instants"]["t000"]["node"]["memory_used_bytes"] - (32 << 20)


def test_files_are_byte_for_byte(recorded: Make, tmp_path: Path) -> None:
    """Every counter is as the kernel wrote it, and its reading lies inside of the instant's."""
    machine, folder = recorded("v2-systemd"), tmp_path / "capture"
    _take(machine, folder)
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


def test_number_of_its_folder_identifies_a_pod_made_again(recorded: Make, tmp_path: Path) -> None:
    machine, folder = recorded("v2-cgroupfs"), tmp_path / "capture"
    pod = machine.live / "sys/fs/cgroup" / machine.pod_path("g").lstrip("/")

    def make_again() -> None:
        pod.rename(pod.with_name("old"))
        pod.mkdir()
        for file in pod.with_name("old").iterdir():
            if file.is_file():
                (pod / file.name).write_bytes(file.read_bytes())

    _take(machine, folder, make_again)
    gaps = replay.as_json(replay.replay(folder))["intervals"]["t000-t001"]["gaps"]
    assert {"uid": machine.uid("g"), "metric": "cpu", "reason": "recreated"} in gaps


def test_mounts_but_proc_and_cgroups_and_processes_are_not_recorded(recorded: Make, tmp_path: Path) -> None:
    machine, folder = recorded("v2-cgroupfs"), tmp_path / "capture"
    (machine.live / "proc/self").mkdir()
    (machine.live / "proc/self/environ").write_text("TOKEN=secret")
    (machine.live / "proc/1").mkdir()
    (machine.live / "proc/1/cmdline").write_text("--password=secret")
    mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\nproc /proc proc rw 0 0\n"
    (machine.live / "proc/mounts").write_text(f"//secret/share /mnt cifs user=secret 0 0\n{mounts}")
    _take(machine, folder)
    assert (folder / "t000/proc/mounts").read_text() == mounts
    for path in folder.rglob("*"):
        assert not path.is_file() or b"secret" not in path.read_bytes()


def test_unreadable_file_is_listed_and_the_rest_recorded(recorded: Make, tmp_path: Path) -> None:
    machine, folder = recorded("v2-cgroupfs"), tmp_path / "capture"
    loop = machine.live / "proc/meminfo"
    loop.unlink()
    loop.symlink_to(loop)
    _take(machine, folder)
    assert (folder / "t000/errors.tsv").read_text() == "/proc/meminfo\tToo many levels of symbolic links\n"
    assert json.loads((folder / "t000/capture.json").read_text())["unreadable"] == 1
    assert (folder / "t000/proc/stat").exists()


def test_command_reports_progress(
    recorded: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each instant is reported as it comes; the agent's own variables name the host; a file of its own is made."""
    machine, target = recorded("v2-cgroupfs-nomem"), tmp_path / "new/node.tar"
    monkeypatch.setenv("HEADROOM_AGENT_HOST_ROOT", str(machine.live))
    assert capture.main([str(target), "--seconds", "1"]) == 0
    out, err = capsys.readouterr()
    assert [line.partition(":")[0] for line in err.splitlines()] == ["t000 of t001", "t001 of t001"]
    assert out == f"Recorded in {target}. To make it smaller: xz {target}\n"
    with tarfile.open(target) as archive:
        assert {name.partition("/")[0] for name in archive.getnames()} == {"t000", "t001"}
        stat = archive.extractfile("t000/proc/stat")
        assert stat is not None
        assert stat.read() == (machine.live / "proc/stat").read_bytes()


def test_instants_are_due_at_their_own_second_however_long_one_took(recorded: Make, tmp_path: Path) -> None:
    now, waits = 100.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    def say(_: str) -> None:
        nonlocal now
        now += 0.25  # what taking an instant took

    paths = HostPaths.under(recorded("v2-cgroupfs-nomem").live)
    capture.capture(paths, tmp_path / "c", 10, say, clock=lambda: now, sleep=sleep)
    assert waits == [0, 0.75, 0.75, 7.75]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("file", r"/file exists already: give a new file"),
        ("file/c", r"cannot write .*/file/c: (Not a directory|File exists); give another file"),
    ],
)
def test_target_must_be_new(name: str, message: str, recorded: Make, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CannotCapture, match=message):
        capture.capture(HostPaths.under(recorded("v2-cgroupfs").live), tmp_path / name, 1, lambda _: None)


def test_half_an_instant_is_removed(recorded: Make, tmp_path: Path) -> None:
    """When the disk fills up, the instants that are complete stay, nothing half is left behind, and the file is named.

    Without any, there is no file.
    """

    def full(after: int) -> Callable[[float], None]:
        begun: list[float] = []

        def sleep(seconds: float) -> None:
            begun.append(seconds)
            if len(begun) > after:
                resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "c").stat().st_size + 4096, limits[1]))

        return sleep

    paths, limits = HostPaths.under(recorded("v2-cgroupfs").live), resource.getrlimit(resource.RLIMIT_FSIZE)
    for after, left in ((0, None), (2, {"t000", "t001"})):
        try:
            with pytest.raises(CannotCapture, match="c: File too large"):
                capture.capture(paths, tmp_path / "c", 10, lambda _: None, sleep=full(after))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert (tmp_path / "c").exists() == (left is not None)
    with tarfile.open(tmp_path / "c") as archive:
        assert {name.partition("/")[0] for name in archive.getnames()} == left


def test_machine_without_cgroups_is_named_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(CannotCapture, match=r"cannot read the cgroup folder .*--host-root"):
        capture.main([str(tmp_path / "c"), "--host-root", str(tmp_path / "nowhere")])


@pytest.mark.parametrize("seconds", ["0", "-1", "x", "1.5", "86401", "9" * 30])
def test_seconds_are_a_whole_number(seconds: str, tmp_path: Path) -> None:
    with pytest.raises(WrongSetting, match="--seconds"):
        capture.main([str(tmp_path / "c"), f"--seconds={seconds}"])
