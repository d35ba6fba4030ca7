"""This machine's own kernel: a pod-like cgroup with a busy process in it, measured by the collectors."""

import contextlib
import os
import subprocess
import sys
import tarfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.capture import replay
from agent.capture.capture import capture
from agent.collectors.base import Collector, Machine, Tick, resolve
from agent.host.cgroup import CgroupTree, Hierarchy, NoCgroups, detect
from agent.host.procfs import HostPaths
from agent.host.rates import Gap
from agent.samples import CPU, CPU_THROTTLED, MEMORY, NODE, CollectionResult, Missing

ANON = 64 << 20
LOAD = """
import sys, time
memory = bytearray(b"x") * int(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print("going", flush=True)
while True:
    until = time.thread_time() + 0.02
    while time.thread_time() < until:
        pass
    time.sleep(0.02)
"""


@dataclass
class BusyPod:
    uid: str  # the uid in the cgroup's name
    folders: list[Path]  # its cgroup in every hierarchy
    process: subprocess.Popen[str]  # the load

    def cpu_nanoseconds(self) -> int:
        """CPU time of the process so far, by its own account. [ns]"""
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0])

    def anonymous_bytes(self) -> int:
        """Its anonymous memory, by its own account. [bytes]"""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("RssAnon:")[1].split()[0]) * 1024


def _hierarchies() -> list[Hierarchy]:
    """Hierarchies of this machine in which a cgroup can be made; skips the test, by reason, without any."""
    root = HostPaths.under("/").cgroup
    try:
        layout = detect(root)
    except NoCgroups as error:
        pytest.skip(f"no cgroups here: {error}")
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a cgroup of this machine's kernel")
    if layout.memory is None:
        pytest.skip("this machine's kernel has no memory controller")
    result = [entry for entry in (layout.cpu, layout.throttling, layout.memory) if entry is not None]
    if not all(os.access(item.root, os.W_OK) for item in result):
        pytest.skip("the cgroup file system is mounted read-only")
    return result


@pytest.fixture
def busy_pod() -> Iterator[BusyPod]:
    """Half a core and 64 MiB in a cgroup with a pod's name, below a parent of this test's own."""
    hierarchies = _hierarchies()
    uid = str(uuid.uuid4())
    parent = f"headroom-test-{os.getpid()}"
    roots = list(dict.fromkeys(os.path.realpath(hierarchy.root) for hierarchy in hierarchies))
    folders = [Path(root, parent, "kubepods/burstable", f"pod{uid}") for root in roots]
    command = [sys.executable, "-c", LOAD, str(ANON)]
    with contextlib.ExitStack() as stack:
        for folder in folders:
            stack.callback(_remove, folder, 4)
            _make(folder, version=hierarchies[0].version)
        process = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        stack.callback(process.kill)
        for folder in folders:
            (folder / "cgroup.procs").write_text(str(process.pid))
        assert process.stdin is not None
        assert process.stdout is not None
        yield BusyPod(uid, folders, process)


def _make(folder: Path, version: int) -> None:
    for level in (*reversed(folder.parents), folder):
        if not level.exists():
            level.mkdir()
            if version == 2:
                (level.parent / "cgroup.subtree_control").write_text("+memory +cpu")


def _remove(folder: Path, levels: int) -> None:
    for _ in range(levels):
        for _attempt in range(100):  # a killed process leaves its cgroup a moment later
            try:
                folder.rmdir()
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.02)
            else:
                break
        folder = folder.parent


def _collectors() -> dict[str, Collector]:
    paths = HostPaths.under("/")
    tree = CgroupTree(detect(paths.cgroup))
    tree.locate()
    machine = Machine(paths, tree, time.monotonic, float(os.sysconf("SC_CLK_TCK")))
    return resolve(["node", "pod"], machine)


def _value(collected: CollectionResult, metric: str, entity: str) -> float:
    return next(sample.value for sample in collected.samples if (sample.metric, sample.entity) == (metric, entity))


def _go(pod: BusyPod) -> None:
    assert pod.process.stdin is not None
    assert pod.process.stdout is not None
    assert pod.process.stdout.readline() == "ready\n"
    pod.process.stdin.write("go\n")
    pod.process.stdin.flush()
    assert pod.process.stdout.readline() == "going\n"


@dataclass
class Account:
    """A process's own account of its usage, read before and after another event, which may have had to wait."""

    before: tuple[int, int]  # its CPU time and the clock. [ns]
    after: tuple[int, int]  # the same, read later. [ns]


def _collected(pod: BusyPod, collector: Collector) -> tuple[CollectionResult, Account]:
    before = pod.cpu_nanoseconds(), time.monotonic_ns()
    collected = collector.collect(Tick(time.time(), ()))
    clock = time.monotonic_ns()
    return collected, Account(before, (pod.cpu_nanoseconds(), clock))


def test_real_load_within_five_percent(busy_pod: BusyPod) -> None:
    """A real process' CPU and memory, as its cgroup shows them, are within 5 % of its own account."""
    _go(busy_pod)
    collectors = _collectors()
    collectors["node"].collect(Tick(time.time(), ()))
    _, first = _collected(busy_pod, collectors["pod"])
    time.sleep(2.5)
    pods, last = _collected(busy_pod, collectors["pod"])
    node = collectors["node"].collect(Tick(time.time(), ()))
    least = (last.before[0] - first.after[0]) / (last.after[1] - first.before[1])
    most = (last.after[0] - first.before[0]) / (last.before[1] - first.after[1])
    assert least * 0.95 <= _value(pods, CPU, busy_pod.uid) <= most * 1.05
    # The process began outside of the cgroup, as a container's init does not: memory touched there is not charged.
    assert _value(pods, MEMORY, busy_pod.uid) <= busy_pod.anonymous_bytes() * 1.05
    assert _value(node, CPU, NODE) >= least * 0.9


def test_memory_touched_inside_a_real_cgroup_is_measured_within_five_percent(busy_pod: BusyPod) -> None:
    collector = _collectors()["pod"]
    _go(busy_pod)
    before = _value(collector.collect(Tick(time.time(), ())), MEMORY, busy_pod.uid)
    command = ["sh", "-c", f"echo $$ > {busy_pod.folders[-1]}/cgroup.procs; exec {sys.executable} -c '{_TOUCH}'"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        status = Path(f"/proc/{child.pid}/status").read_text()
        anonymous = int(status.split("RssAnon:")[1].split()[0]) * 1024
        after = _value(collector.collect(Tick(time.time(), ())), MEMORY, busy_pod.uid)
        child.kill()
    assert after - before == pytest.approx(anonymous, rel=0.05)


_TOUCH = f"""memory = bytearray(b"x") * {ANON}; print("ready", flush=True); input()"""


def test_real_cgroup_that_comes_back_leaves_a_gap_and_no_wrong_number(busy_pod: BusyPod) -> None:
    _go(busy_pod)
    collector = _collectors()["pod"]
    collector.collect(Tick(time.time(), ()))
    busy_pod.process.kill()
    busy_pod.process.wait()
    for folder in busy_pod.folders:
        _remove(folder, 1)
    for folder in busy_pod.folders:
        folder.mkdir()
    time.sleep(0.05)
    collected = collector.collect(Tick(time.time(), ()))
    assert Missing(CPU, busy_pod.uid, Gap.RECREATED) in collected.missing
    assert all((sample.metric, sample.entity) != (CPU, busy_pod.uid) for sample in collected.samples)


def _limit(pod: BusyPod, milli: int) -> None:
    for folder in pod.folders:
        if (folder / "cpu.max").exists():
            (folder / "cpu.max").write_text(f"{milli * 100} 100000")
        elif (folder / "cpu.cfs_quota_us").exists():
            (folder / "cpu.cfs_quota_us").write_text(str(milli * 100))


def _periods(pod: BusyPod) -> int:
    (file,) = [folder / "cpu.stat" for folder in pod.folders if "nr_periods" in _text(folder / "cpu.stat")]
    words = file.read_text().split()
    return int(words[words.index("nr_periods") + 1])


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline, "the kernel did not do it in 30 s"
        time.sleep(0.02)


def test_real_quota_throttles(busy_pod: BusyPod) -> None:
    """A real pod that wants more than its quota is throttled; before it has one there is no such series."""
    collector = _collectors()["pod"]
    _go(busy_pod)
    for _ in range(2):
        collected = collector.collect(Tick(time.time(), ()))
        assert (CPU_THROTTLED, busy_pod.uid) not in {(sample.metric, sample.entity) for sample in collected.samples}
        time.sleep(0.03)
    _limit(busy_pod, 50)
    _wait_for(lambda: _periods(busy_pod) >= 2)
    collector.collect(Tick(time.time(), ()))
    observed = _periods(busy_pod)
    _wait_for(lambda: _periods(busy_pod) >= observed + 5)
    share = _value(collector.collect(Tick(time.time(), ())), CPU_THROTTLED, busy_pod.uid)
    assert 0 < share <= 1


def test_capture_of_this_machine_shows_usage_of_the_process(busy_pod: BusyPod, tmp_path: Path) -> None:
    _go(busy_pod)
    target, moments = tmp_path / "capture.tar", []

    def moment(_: object = None) -> None:
        moments.append((busy_pod.cpu_nanoseconds(), time.monotonic_ns()))

    def wait(_: float) -> None:
        if moments:
            _wait_for(lambda: busy_pod.cpu_nanoseconds() > moments[-1][0] + 300_000_000)
        moment()

    capture(HostPaths.under("/"), target, 1, moment, sleep=wait)
    before, first, second, after = moments
    with tarfile.open(target) as archive:
        archive.extractall(tmp_path / "capture", filter="data")
    result = replay.as_json(replay.replay(target))
    assert result["detected"]["driver"] in ("systemd", "cgroupfs")
    cores = result["intervals"]["t000-t001"]["pods"][busy_pod.uid]["cpuMilli"] / 1000
    least = (second[0] - first[0]) / (after[1] - before[1])
    most = (after[0] - before[0]) / (second[1] - first[1])
    assert least * 0.95 <= cores <= most * 1.05
    assert f"/kubepods/burstable/pod{busy_pod.uid}" in (tmp_path / "capture/t000/cgroups.tsv").read_text()
