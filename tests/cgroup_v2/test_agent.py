"""The real agent under a kernel that has cgroup v2 alone, beside real processes under known load."""

from collections.abc import Mapping

import pytest

from agent.capture.replay import as_json, replay
from agent.samples import CPU, CPU_THROTTLED, MEMORY, MEMORY_WITH_PAGE_CACHE
from tests.cgroup_v2.measured import Measured
from tools.devcluster.guest_pods import DRIVERS, MIB, PODS

pytestmark = [pytest.mark.cgroup_v2, pytest.mark.timeout(900), pytest.mark.parametrize("driver", DRIVERS)]
Guest = Mapping[str, Measured]
AGAINST_KERNEL = 0.03
"""Tolerance against the kernel's own counters; the agent reads them some milliseconds apart from the test."""
FORK_MIB = 4  # a process's memory beyond the requested amount, at most [MiB]


def test_cgroups_are_detected(in_guest: Guest, driver: str) -> None:
    """The agent says that it found pure cgroup v2, and which driver named the pods' cgroups."""
    assert "cgroup v2" in in_guest[driver].log
    assert driver in in_guest[driver].log


@pytest.mark.parametrize("pod", ["held-back", "steady", "sharing"])
def test_cpu_equals_kernel_counters(in_guest: Guest, driver: str, pod: str) -> None:
    """The CPU of a pod is what its counter says over the same time, within 3 % and 3 milli-cores."""
    measured, true = in_guest[driver].rate(pod, CPU, "usage_usec")
    assert measured == pytest.approx(true, rel=AGAINST_KERNEL, abs=0.003)


def test_idle_pods_use_nothing(in_guest: Guest, driver: str) -> None:
    """A sleeping pod and one without a process use no CPU: zero, not a gap."""
    assert in_guest[driver].mean("idle", CPU) == pytest.approx(0.0, abs=0.002)
    assert in_guest[driver].mean("empty", CPU) == 0.0


@pytest.mark.parametrize("pod", ["held-back", "steady", "sharing", "idle"])
def test_memory_equals_held(in_guest: Guest, driver: str, pod: str) -> None:
    """Memory without page cache is what a pod's process holds, shared memory included, within 4 MiB."""
    held = PODS[pod].anon_mib + PODS[pod].shared_mib
    assert held <= in_guest[driver].mean(pod, MEMORY) / MIB <= held + FORK_MIB


def test_memory_equals_kernel_anon(in_guest: Guest, driver: str) -> None:
    """Memory of a pod with anonymous memory alone is the kernel's `anon` over the same time within 3 %."""
    measured, true = in_guest[driver].level("idle", MEMORY, "anon")
    assert measured == pytest.approx(true, rel=0.03)


def test_page_cache_is_apart(in_guest: Guest, driver: str) -> None:
    """A file that a pod has read counts in its memory with page cache alone."""
    with_cache, without = (in_guest[driver].mean("steady", metric) for metric in (MEMORY_WITH_PAGE_CACHE, MEMORY))
    assert PODS["steady"].file_mib - 1 <= (with_cache - without) / MIB <= PODS["steady"].file_mib + 2


def test_throttling_equals_kernel_counters(in_guest: Guest, driver: str) -> None:
    """The share of throttled periods is that of the kernel's counters within 0.05; without a quota there is none."""
    measured, true = in_guest[driver].rate("held-back", CPU_THROTTLED, "nr_throttled", per="nr_periods")
    assert measured == pytest.approx(true, abs=0.05)
    assert measured > 0.9


def test_pressure_of_pods(in_guest: Guest, driver: str) -> None:
    """The CPU pressure of a pod that its quota holds back is the kernel's within 5 %; an idle pod has none."""
    measured, true = in_guest[driver].rate("held-back", "psi_cpu_some", "psi_cpu_some")
    assert measured == pytest.approx(true, rel=0.05)
    assert measured > 0.5
    assert in_guest[driver].mean("idle", "psi_cpu_some") == pytest.approx(0.0, abs=0.02)


def test_report_has_every_pod(in_guest: Guest, driver: str) -> None:
    """The NodeMetric that the agent prints has the node's usage, and that of each pod in the cgroup tree."""
    status = in_guest[driver].status
    assert set(status["nodeMetric"]["nodeUsage"]["resources"]) == {"cpu", "memory"}
    assert len(status["podsMetric"]) == len(PODS)


@pytest.mark.parametrize("pod", ["held-back", "steady", "sharing"])
def test_recording_tells_the_same(in_guest: Guest, driver: str, pod: str) -> None:
    """A recording made in the guest, replayed on this machine, gives each pod the CPU of its counter within 5 %."""
    measured, true = in_guest[driver].recorded(pod, "t010-t020")
    assert measured == pytest.approx(true, rel=0.05, abs=3.0)


def test_recording_is_recognised(in_guest: Guest, driver: str) -> None:
    """A recording made in the guest shows version 2 and the driver that named the pods' cgroups."""
    result = as_json(replay(in_guest[driver].recording))["detected"]
    assert result == {"cgroup": 2, "driver": driver}
