"""In a guest: pods' cgroups as kubelet lays them out, real processes under known load in them, and programs beside.

A script of the standard library alone, since every import takes long there: `python -I guest_pods.py JOB.json`.
"""

import json
import mmap
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = "+cpu +memory +io +pids"
PERIOD_MICROSECONDS = 100_000
SLOT_SECONDS = 0.02
MOST_BEHIND_SECONDS = 0.1
TRUTH_EVERY_SECONDS = 0.5
MIB = 1 << 20
CONTAINER, SANDBOX = "c" * 64, "a" * 64
DRIVERS = ("cgroupfs", "systemd")
_GONE_TRIES, _GONE_PAUSE_SECONDS = 100, 0.05
_UID = "6f1d2c3a-0000-4000-8000-00000000000{}"


@dataclass(frozen=True)
class GuestPod:
    """A pod's cgroup, and what runs in it."""

    uid: str  # the pod's uid
    qos: str  # folder of its QoS class: empty (Guaranteed), burstable or besteffort
    cpu_cores: float = 0.0  # what its process tries to use [cores]
    anon_mib: int = 0  # anonymous memory that its process holds [MiB]
    file_mib: int = 0  # how much of a file it has read [MiB]
    shared_mib: int = 0  # shared memory that it holds [MiB]
    quota_cores: float = 0.0  # its CPU quota; 0: none [cores]
    empty: bool = False  # nothing runs in it


PODS: Mapping[str, GuestPod] = {
    "held-back": GuestPod(_UID.format(1), "", cpu_cores=1.0, anon_mib=24, quota_cores=0.2),
    "steady": GuestPod(_UID.format(2), "burstable", cpu_cores=0.15, anon_mib=64, file_mib=16),
    "sharing": GuestPod(_UID.format(3), "burstable", cpu_cores=0.05, anon_mib=8, shared_mib=12),
    "idle": GuestPod(_UID.format(4), "besteffort", anon_mib=16),
    "empty": GuestPod(_UID.format(5), "besteffort", empty=True),
}
"""The pods of a guest, by a name for their purpose."""


def pod_folder(pod: GuestPod, driver: str) -> str:
    """A pod's cgroup below the root, as kubelet's cgroup driver names it."""
    if driver == "cgroupfs":
        return "/".join(("kubepods", *filter(None, [pod.qos]), f"pod{pod.uid}"))
    stem = "-".join(("kubepods", *filter(None, [pod.qos])))
    top = "kubepods.slice" if not pod.qos else f"kubepods.slice/{stem}.slice"
    return f"{top}/{stem}-pod{pod.uid.replace('-', '_')}.slice"


def container_folder(identifier: str, driver: str) -> str:
    """A container's cgroup below its pod's."""
    return identifier if driver == "cgroupfs" else f"cri-containerd-{identifier}.scope"


def make_groups(pod: GuestPod, driver: str) -> Path:
    """Make a pod's cgroup with a container and a sandbox; return the container's."""
    folder = ROOT / pod_folder(pod, driver)
    folder.mkdir(parents=True)
    for parent in [*reversed(folder.parents), folder]:
        if parent.is_relative_to(ROOT):
            (parent / "cgroup.subtree_control").write_text(CONTROLLERS)
    for identifier in (CONTAINER, SANDBOX):
        (folder / container_folder(identifier, driver)).mkdir()
    if pod.quota_cores:
        (folder / "cpu.max").write_text(f"{int(pod.quota_cores * PERIOD_MICROSECONDS)} {PERIOD_MICROSECONDS}")
    return folder / container_folder(CONTAINER, driver)


def start(pod: GuestPod, container: Path, file: Path) -> int:
    """Start a pod's process in its container's cgroup; return its pid when it has allocated its memory."""
    ready, texts = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ready)
        (container / "cgroup.procs").write_text(str(os.getpid()))
        held = hold(pod, file)
        os.write(texts, b"1")
        burn(pod.cpu_cores)
        del held
        os._exit(0)
    os.close(texts)
    if not os.read(ready, 1):
        raise SystemExit(f"the process of pod {pod.uid} ended at once")
    os.close(ready)
    return child


def hold(pod: GuestPod, file: Path) -> list[mmap.mmap]:
    """Take what a pod has in memory: anonymous and shared pages written to, a file read once."""
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    held = []
    for mib, flags in ((pod.anon_mib, private), (pod.shared_mib, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)):
        if mib:
            memory = mmap.mmap(-1, mib * MIB, flags=flags)
            memory.madvise(mmap.MADV_NOHUGEPAGE)  # else it holds up to two MiB more, some time later
            for at in range(0, mib * MIB, mmap.PAGESIZE):
                memory[at] = 1
            held.append(memory)
    if pod.file_mib:
        with file.open("rb") as source:
            for _ in range(pod.file_mib):
                source.read(MIB)
    return held


def burn(cores: float) -> None:
    """Use so much CPU time for ever, by the process's own CPU clock; what could not be had is soon forgotten."""
    if not cores:
        signal.pause()
    began, used, debt = time.monotonic(), time.process_time(), 0.0
    while True:
        wanted = (time.monotonic() - began) * cores - debt
        behind = wanted - (time.process_time() - used)
        if behind > MOST_BEHIND_SECONDS:
            debt += behind - MOST_BEHIND_SECONDS
        if behind > 0:
            for _ in range(2000):
                pass
        else:
            time.sleep(SLOT_SECONDS)


def truth(driver: str) -> dict[str, dict[str, float]]:
    """Return the kernel's counters of each pod now, by name, and the time; read here, not by the agent."""
    result = {}
    for name, pod in PODS.items():
        folder = ROOT / pod_folder(pod, driver)
        numbers = {**_pairs(folder / "cpu.stat"), "time": time.time(), "anon": _pairs(folder / "memory.stat")["anon"]}
        for resource in ("cpu", "memory", "io"):
            for line in (folder / f"{resource}.pressure").read_text().splitlines():
                kind, *fields = line.split()
                numbers[f"psi_{resource}_{kind}"] = float(fields[-1].removeprefix("total="))
        result[name] = numbers
    return result


def _pairs(file: Path) -> dict[str, float]:
    fields = file.read_text().split()
    return {name: float(number) for name, number in zip(fields[::2], fields[1::2], strict=True)}


def watch(driver: str, rows: list[object], ended: threading.Event) -> None:
    """Add the truth to the rows, twice a second."""
    while not ended.wait(TRUTH_EVERY_SECONDS):
        rows.append(truth(driver))


def run(driver: str, commands: Sequence[Sequence[str]], file: Path, out: Path) -> None:
    """Make the pods, run the commands one after the other, and write the counters meanwhile."""
    containers = {name: make_groups(pod, driver) for name, pod in PODS.items()}
    children = [start(pod, containers[name], file) for name, pod in PODS.items() if not pod.empty]
    rows: list[object] = []
    ended = threading.Event()
    watcher = threading.Thread(target=watch, args=(driver, rows, ended))
    watcher.start()
    try:
        for number, command in enumerate(commands):
            with (
                (out / f"{driver}-{number}.out").open("wb") as stdout,
                (out / f"{driver}-{number}.err").open("wb") as log,
            ):
                done = subprocess.run(command, check=False, stdout=stdout, stderr=log, stdin=subprocess.DEVNULL)
            if done.returncode:
                said = (out / f"{driver}-{number}.err").read_text(errors="replace")
                raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{said}")
    finally:
        ended.set()
        watcher.join()
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    (out / f"{driver}-truth.json").write_text(json.dumps(rows))
    remove_groups()


def remove_groups() -> None:
    """Remove the pods' cgroups, depth first; the kernel frees them a moment after their processes."""
    tops = [top for name in ("kubepods", "kubepods.slice") if (top := ROOT / name).exists()]
    for top in tops:
        for folder in sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True):
            _remove(folder)
        _remove(top)


def _remove(folder: Path) -> None:
    for _ in range(_GONE_TRIES):
        try:
            folder.rmdir()
        except OSError:
            time.sleep(_GONE_PAUSE_SECONDS)
        else:
            return
    raise SystemExit(f"the cgroup {folder} does not go away")


def main(job_file: str) -> None:
    """Run a job: `{"commands": {driver: [argv, …]}, "read": {driver: file}, "keep": [folder, …]}`."""
    job = json.loads(Path(job_file).read_text())
    out = Path(job_file).parent
    for driver, commands in job["commands"].items():
        run(driver, commands, Path(job["read"][driver]), out)
    with tarfile.open(out / "kept.tar", "w") as archive:
        for folder in job["keep"]:
            archive.add(folder, Path(folder).name)


if __name__ == "__main__":
    main(sys.argv[1])
