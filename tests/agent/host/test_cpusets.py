from dataclasses import replace
from pathlib import Path

import pytest

from agent.collectors.base import Machine, NoData, Tick, resolve
from agent.host.cgroup import CgroupTree, ExclusiveCpus, detect
from agent.host.cpusets import read_exclusive
from agent.host.procfs import HostPaths, Malformed
from agent.host.rates import Gap
from agent.host.reopening_files import Unreadable
from agent.samples import CPU_EXCLUSIVE, Missing
from tests.agent.made import pod

ALL = "0-15"
PAUSE = {"pause": ALL}
A = {"kubepods/poda": {"main": "0-7", **PAUSE}}
B = {"kubepods/burstable/podb": {"main": "8-15", **PAUSE}}


def machine(root: Path, containers: dict[str, dict[str, str]], version: int = 2, file: str = "") -> CgroupTree:
    """A machine with 16 CPUs, and the CPUs of each container by the folder of its pod."""
    cgroup = root / "sys/fs/cgroup"
    file = file or ("cpuset.cpus.effective" if version == 2 else "cpuset.effective_cpus")
    top = cgroup if version == 2 else cgroup / "cpuset"
    files = {f"{folder}/{name}/{file}": cpus for folder, names in containers.items() for name, cpus in names.items()}
    for folder in ("kubepods", *containers):
        files[f"{folder}/{file}"] = ALL
    for path, text in files.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(f"{text}\n")
    for folder in ("kubepods", *containers):
        (cgroup / ("" if version == 2 else "cpuacct") / folder).mkdir(parents=True, exist_ok=True)
    (top / "cpuset.cpus").touch()
    marker = "cgroup.controllers" if version == 2 else "cpuacct/cpuacct.usage"
    (cgroup / marker).write_text("cpu cpuset memory\n")
    tree = CgroupTree(detect(cgroup))
    tree.locate()
    tree.pods()
    return tree


def numbers(found: ExclusiveCpus | None) -> tuple[list[int], list[str]] | None:
    return None if found is None else (sorted(found.cpus), sorted(found.pods))


NONE: tuple[list[int], list[str]] = ([], [])
EIGHT = (list(range(8)), ["a"])


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ({}, NONE),
        ({"kubepods/poda": {"main": ALL, **PAUSE}, "kubepods/burstable/podb": {"main": ALL}}, NONE),
        (A | B, EIGHT),
        (B, NONE),  # none but the pool
        ({**A, "kubepods/besteffort/pode": {"main": "8-15"}}, EIGHT),
        ({**B, "kubepods/poda": {"main": "0-7", "sidecar": "8-15", **PAUSE}}, EIGHT),
        ({**B, "kubepods/podg": {"main": "8-15"}}, NONE),  # Guaranteed without an integer number of CPUs
        ({**B, "kubepods/poda": {"main": "0-3,6"}, "kubepods/podc": {"main": "4"}}, ([0, 1, 2, 3, 4, 6], ["a", "c"])),
        ({"kubepods/burstable/podb": {"main": "0-7"}, "kubepods/besteffort/pode": {"main": "8-15"}}, NONE),  # by NUMA
        ({**A, "kubepods/burstable/podb": {"main": "4-15"}}, NONE),  # kubelet has not shrunk the pool yet
        (A, EIGHT),  # no container in the pool
        ({"kubepods/poda": {"main": "0-7", "sidecar": "8-15"}, "kubepods/podc": {"main": "8-15"}}, EIGHT),
        ({"kubepods/podbig": {"main": "1-15"}}, NONE),  # more than it requests: the pool without reserved CPUs
        # no CPU manager where a container, and not only the sandbox of its pod, has all CPUs
        ({**A, **B, "kubepods/besteffort/pode": {"main": ALL}}, NONE),
        ({**A, **B, "kubepods/besteffort/pode": {"cri-containerd-main.scope": ALL, **PAUSE}}, NONE),
        ({**A, **B, "kubepods/besteffort/pode": {"crio-main.scope": "8-15", "crio-conmon-main.scope": ALL}}, EIGHT),
        ({**A, **B, "kubepods/podg": {"main": ALL, **PAUSE}}, NONE),
        ({**A, **B, "kubepods/besteffort/podf": PAUSE}, EIGHT),  # its container has not started
        ({**A, **B, "kubepods/besteffort/pode": PAUSE}, EIGHT),  # its container has ended
        ({**A, "kubepods/burstable/podb": {"main": ""}}, EIGHT),  # a cpuset of version 1 that was never set
    ],
)
@pytest.mark.parametrize(("version", "file"), [(2, ""), (1, ""), (1, "cpuset.cpus")])
def test_exclusive_cpus(
    containers: dict[str, dict[str, str]],
    expected: tuple[list[int], list[str]],
    version: int,
    file: str,
    tmp_path: Path,
) -> None:
    """CPUs are exclusive that a Guaranteed pod has apart from the shared pool, in which all other containers run."""
    tree = machine(tmp_path, containers, version, file)
    assert numbers(read_exclusive(tree, {"a": 8000, "big": 1500}, {"e": {"main"}, "a": {"sidecar"}})) == expected


def test_cgroups_without_cpusets_are_unknown(tmp_path: Path) -> None:
    tree = machine(tmp_path, A | B)
    for file in tmp_path.rglob("cpuset.cpus.effective"):
        file.unlink()
    assert read_exclusive(tree, {}, {}) is None


@pytest.mark.parametrize(("text", "error"), [("x-y", Malformed), (None, Unreadable)])
def test_last_known_cpus_stay_while_a_file_is_bad(text: str | None, error: type[Exception], tmp_path: Path) -> None:
    """A cpuset that cannot be read must not look like a shared one."""
    tree, now = machine(tmp_path, A | B), 0.0
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("cpu  0 0 0 0 0 0 0\n")
    parts = Machine(HostPaths.under(tmp_path), tree, lambda: now, 100.0)
    collector = resolve(["exclusive-cpu"], parts)["exclusive-cpu"]
    collector.collect(Tick(0.0, ()))
    file = tmp_path / "sys/fs/cgroup/kubepods/poda/main/cpuset.cpus.effective"
    file.unlink()
    if text is None:
        file.symlink_to(file)
    else:
        file.write_text(text)
    with pytest.raises(error, match="poda/main"):
        read_exclusive(tree, {}, {})
    now = 10.0
    collected = collector.collect(Tick(10.0, ()))
    assert "poda/main" in collected.problem
    assert numbers(tree.exclusive) == EIGHT


def test_usage_of_exclusive_cpus_is_collected(tmp_path: Path) -> None:
    """Busy time of the exclusive CPUs alone; 0 while there are none, and a gap when they have changed."""
    tree, now = machine(tmp_path, B), 0.0
    (tmp_path / "proc").mkdir()
    parts = Machine(HostPaths.under(tmp_path), tree, lambda: now, 100.0)
    collector = resolve(["exclusive-cpu"], parts)["exclusive-cpu"]

    def tick(seconds: float, busy: int) -> list[float | Missing]:
        nonlocal now
        now = seconds
        lines = (f"cpu{number} {busy if number < 2 else 9 * busy} 0 0 0 0 0 0\n" for number in range(16))
        (tmp_path / "proc/stat").write_text(f"cpu  {busy} 0 0 0 0 0 0\n{''.join(lines)}")
        tree.pods()
        collected = collector.collect(Tick(seconds, [replace(pod("a-uid", 2000), cgroup_uid="a")]))
        return [*(sample.value for sample in collected.samples), *collected.missing]

    assert tick(0.0, 100) == [0.0]
    machine(tmp_path, {"kubepods/poda": {"main": "0-1"}})
    assert tick(1.0, 200) == [0.0]  # cpusets are read every ten seconds
    assert tick(10.0, 300) == [Missing(CPU_EXCLUSIVE, "node", Gap.FIRST)]
    assert tick(11.0, 350) == [1.0]
    assert numbers(tree.exclusive) == ([0, 1], ["a-uid"])
    machine(tmp_path, {"kubepods/poda": {"main": "0"}})
    assert tick(21.0, 400) == [Missing(CPU_EXCLUSIVE, "node", Gap.RECREATED)]
    assert tick(22.0, 450) == [0.5]


def test_machine_without_cpusets_has_no_data(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu\n")
    parts = Machine(HostPaths(tmp_path, tmp_path), CgroupTree(detect(tmp_path)), lambda: 0.0, 100.0)
    with pytest.raises(NoData, match="no cpusets"):
        resolve(["exclusive-cpu"], parts)["exclusive-cpu"].collect(Tick(0.0, ()))
