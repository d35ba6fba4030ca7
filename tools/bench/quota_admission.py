"""Cost of admission by quotas per pod."""

import time
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from scheduler_plugins.extender.service import Answering, Extender
from scheduler_plugins.extender.wire import Arguments
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.framework.verdict import Refusal
from scheduler_plugins.plugins.capacity_scheduling import NAME, CapacityScheduling
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.quota import MaxMissing
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tools.bench import quota_objects as made
from tools.bench.costs import WARM_UP, fresh, memory_mib, timed
from tools.bench.rows import Row

NODES, QUICK_NODES = (1000, 5000), (20,)
CALLS, QUICK_CALLS = 200, 3
NOW: Final = 1_800_000_000.0
SAMPLED: Final = 20  # kube-scheduler requests one node in so many, with the shipped 5 %
CLAIMS: Final = (0, 50, 1000)  # numbers of pending pods with reserved resources
LENDER, BORROWER = 1, 0  # quotas of the requested pods

Json = dict[str, Any]


class Work:
    """The extender's parts without HTTP, filled as by its watches.

    Args:
        nodes: how many.
    """

    def __init__(self, nodes: int) -> None:
        self.plugin = CapacityScheduling(max_missing=MaxMissing.INFINITE).defaulted()
        self.cache = ClusterCache(LoadRules(), {NAME: self.plugin})
        state = self.cache.plugin_states[NAME]
        assert isinstance(state, QuotaCluster)  # noqa: S101 - the plugin made it
        self.cluster = state
        self.quotas = nodes // made.NODES_PER_QUOTA
        for number in range(nodes):
            self.put_node(fresh(made.node(number)))
        for number in range(self.quotas):
            state.put_quota(fresh(made.quota(number, NOW)))
        for pod in made.pods(nodes, NOW):
            self.put_pod(fresh(pod))
        self.names = list(self.cache.nodes)

    def put_node(self, node: Json) -> None:
        """As the watch of nodes."""
        self.cache.put_node(node)

    def put_pod(self, pod: Json) -> None:
        """As the watch of pods."""
        self.cache.put_pod(pod, NOW)

    def hold(self, count: int) -> None:
        """Add pending pods with reserved resources, each on a node of its own."""
        for number in range(count):
            pod = fresh(made.pod(f"holder-{number}", number % self.quotas, 0, "", NOW))
            hold = Hold(self.names[number % len(self.names)], NOW + 60)
            pod["metadata"]["annotations"], pod["status"]["conditions"] = hold.annotations, [hold.condition]
            self.put_pod(pod)

    def release(self, count: int) -> None:
        """Let them be gone."""
        for number in range(count):
            self.cache.delete_pod(f"holder-{number}")


def measure(*, quick: bool = False) -> Iterator[Row]:
    """Memory, then the plugin alone, the whole request without HTTP, and changes."""
    nodes, calls = (QUICK_NODES[-1], QUICK_CALLS) if quick else (NODES[-1], CALLS)
    before, began = memory_mib()[0], time.perf_counter()
    work = Work(nodes)
    took, (now, peak) = time.perf_counter() - began, memory_mib()
    size = f"{nodes:,} nodes, {work.quotas:,} quotas and {len(work.cluster.pods):,} pods"
    yield Row(
        f"extender's cache with {size}, CapacityScheduling alone: RSS",
        f"{now:.0f} MiB, peak {peak:.0f} MiB, {before:.0f} MiB of it before the first object",
    )
    yield Row("taking them in from JSON", f"{took:.1f} s")
    yield from _verdicts(work, calls)
    yield from _requests(work, calls)
    yield from _changes(work, calls)


def requested_pods(work: Work) -> dict[str, Json]:
    """Pods to request, by outcome."""
    return {
        "admitted": made.pod("admitted", LENDER, 0, "", NOW),
        "refused for max": made.pod("over-max", BORROWER, 1, "", NOW),
        "refused for the sum of min": made.pod("over-min", LENDER, 1, "", NOW),
        "without a quota": made.pod("free", work.quotas, 0, "", NOW),
    }


def _verdicts(work: Work, calls: int) -> Iterator[Row]:
    """The plugin alone: PreFilter of each kind of pod, and Filter, with and without holds."""
    some = work.names[: max(len(work.names) // SAMPLED, 1)]
    nodes, _ = work.cache.select(some, NOW)
    for count in CLAIMS:
        nominations = min(count, len(work.names))
        work.hold(nominations)
        beside = f"{nominations:,} pods with reservations"
        for what, json_pod in requested_pods(work).items():
            pod = work.cache.read(json_pod)
            _check(what, work.plugin.pre_filter(pod, nodes))
            measured = timed(lambda pod=pod: work.plugin.pre_filter(pod, nodes), calls)  # type: ignore[misc]
            yield Row(f"admission, pod {what}, {beside}", str(measured))
        pod = work.cache.read(requested_pods(work)["admitted"])
        measured = timed(lambda pod=pod: work.plugin.filter(pod, nodes), calls)  # type: ignore[misc]
        yield Row(f"holds on {len(nodes):,} nodes, {beside}", str(measured))
        work.release(nominations)


def _check(what: str, refusal: Refusal | None) -> None:
    """Raise unless a pod is refused, or not, as its title says.

    Raises:
        AssertionError: the outcome differs from the line's title.
    """
    reason = "" if refusal is None else refusal.reason
    wanted = {"refused for max": "> max", "refused for the sum of min": "> sum of min"}.get(what, "")
    if bool(wanted) != bool(reason) or wanted not in reason:
        raise AssertionError(f"a pod {what}: {reason or 'admitted'}")


def _requests(work: Work, calls: int) -> Iterator[Row]:
    """The whole request without HTTP, charge included, with the plugin and without any."""
    some = work.names[: max(len(work.names) // SAMPLED, 1)]
    for title, enabled in (("CapacityScheduling alone", [Enabled(NAME, 1.0, work.plugin)]), ("no plugin", [])):
        lot = np.random.default_rng(1)
        extender = Extender(work.cache, Cycle(enabled), Answering(), lambda: NOW, lot)
        teams = [1 + 2 * (index % (work.quotas // 2)) for index in range(calls + WARM_UP)]
        turn = [made.pod(f"{title}-{each}", team, 0, "", NOW) for each, team in enumerate(teams)]
        requests = iter([Arguments(fresh(pod), some) for pod in turn])
        measured = timed(lambda: extender.filter(next(requests)), calls)  # noqa: B023 - called at once
        yield Row(f"filter of {len(some):,} nodes, {title}, pod charged", str(measured))
        for pod in turn:
            work.cache.release(pod["metadata"]["uid"])


def _changes(work: Work, calls: int) -> Iterator[Row]:
    """The cost of a change."""
    events = [made.pod(f"new-{index}", index % work.quotas, 0, work.names[0], NOW) for index in range(calls + WARM_UP)]
    turn = iter([fresh(pod) for pod in events])
    bound = timed(lambda: work.cluster.put_pod(next(turn)), calls)
    yield Row("quotas, event of a pod that was bound", str(bound))
    gone = iter([str(pod["metadata"]["uid"]) for pod in events])
    deleted = timed(lambda: work.cluster.delete_pod(next(gone)), calls)
    yield Row("quotas, event of a pod that is gone", str(deleted))
    changed = iter([fresh(made.quota(number % work.quotas, NOW)) for number in range(calls + WARM_UP)])
    yield Row("event of a quota", str(timed(lambda: work.cluster.put_quota(next(changed)), calls)))
