"""Resources that a pod does not request, and resources that no quota guarantees."""

import pytest

from scheduler_plugins.preemption.selection.context import PreemptionContext, ReleasedUsage
from scheduler_plugins.quota.admission import refusal
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import MaxMissing
from tests.scheduler_plugins.objects import NOW, Json
from tests.scheduler_plugins.quota.objects import GPU, node, pod, quota

MID_CPU, MID_MEMORY = "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"
BOUNDS = {"cpu": 4, "memory": "4Gi"}


def _cluster(*items: Json) -> QuotaCluster:
    cluster = QuotaCluster("q", MaxMissing.ZERO)
    cluster.put_node(node("n1", cpu="100", memory="100Gi"))
    for item in items:
        (cluster.put_pod if "containers" in item["spec"] else cluster.put_quota)(item)
    return cluster


def _resource(cluster: QuotaCluster, item: Json) -> str | None:
    over = refusal(QuotaPod.from_json(item), cluster.ledger, cluster.nominations(NOW), cluster.unconfirmed)
    return None if over is None else over.resource


@pytest.mark.parametrize(
    ("requests", "over"),
    [
        ({MID_CPU: "500", MID_MEMORY: "1Gi"}, None),
        ({MID_CPU: "500", "cpu": "0", "memory": "0"}, None),
        ({"cpu": "1"}, None),  # within max, and within the sum of min
        ({"cpu": "4"}, "cpu"),
        ({"memory": "1"}, "memory"),
        ({GPU: "1"}, None),
        ({"ephemeral-storage": "1Gi"}, "ephemeral-storage"),  # max names others: `maxMissing: zero`
    ],
)
def test_only_requested_resources_refuse(requests: dict[str, str], over: str | None) -> None:
    """A namespace beyond its max of memory, by pods that another scheduler placed, and by a claim."""
    full = pod("x", "a", {"memory": "5Gi", "cpu": "1"}, node="n1")
    claim = pod("c", "a", {"memory": "1Gi"}, priority=9, hold=Hold("n1", NOW + 60))
    for quotas in ([quota("a", BOUNDS, BOUNDS)], [quota("a", BOUNDS, BOUNDS), quota("b", {"cpu": 2})]):
        assert _resource(_cluster(*quotas, full), pod("p", "a", requests)) == over
        assert _resource(_cluster(*quotas, full, claim), pod("p", "a", requests)) == over


def test_sum_of_min_bounds_guaranteed_resources() -> None:
    """A min of 0 is a bound; no min is none, also once the quota that named the resource is gone."""
    wants = pod("p", "a", {MID_MEMORY: "1Gi"})
    cluster = _cluster(quota("a", {"cpu": 4}), quota("b", {MID_MEMORY: 0}))
    assert _resource(cluster, wants) == MID_MEMORY
    cluster.delete_quota("b-q")
    assert _resource(cluster, wants) is None
    assert cluster.ledger.total_min == {"cpu": 4000}


def test_usage_without_any_min_is_not_borrowed() -> None:
    cluster = _cluster(quota("a", {"cpu": 4}), quota("b", {"cpu": 4}), pod("x", "b", {MID_CPU: "900"}, node="n1"))
    assert not cluster.ledger.is_over_min("b")
    cluster.put_quota(quota("c", {MID_CPU: 1000}))
    assert cluster.ledger.is_over_min("b")
    cluster.delete_quota("c-q")
    assert not cluster.ledger.is_over_min("b")


@pytest.mark.parametrize(
    ("requests", "beyond"),
    [
        ({"cpu": "2"}, []),  # guaranteed, although the namespace borrows memory
        ({"cpu": "2", GPU: "1"}, []),
        ({"cpu": "2", "memory": "1Gi"}, ["memory"]),
        ({MID_CPU: "500"}, [MID_CPU]),  # nothing is guaranteed: it takes from its own namespace alone
    ],
)
def test_preemption_counts_requested_resources(requests: dict[str, str], beyond: list[str]) -> None:
    cluster = _cluster(
        quota("a", BOUNDS),
        quota("b", {"cpu": 4, "memory": "8Gi"}),
        pod("x", "a", {"memory": "5Gi", "cpu": "1"}, node="n1"),
        pod("y", "b", {"cpu": "7"}, node="n1"),
    )
    context = PreemptionContext.of(QuotaPod.from_json(pod("p", "a", requests)), cluster, NOW)
    assert list(context.beyond) == beyond
    assert {name for part in context.shortage for name in part} == ({"cpu"} if "cpu" in requests else set())
    assert {victim.name for victim in context.possible("n1")} == (set() if beyond else {"y"})


@pytest.mark.parametrize(
    ("quotas", "running", "over"),
    [
        ([quota("a", None, {"pods": 2})], 1, None),
        ([quota("a", None, {"pods": 2})], 2, "pods"),
        ([quota("a", {"pods": 1}), quota("b", {"pods": 1})], 1, None),  # the sum of min
        ([quota("a", {"pods": 1}), quota("b", {"pods": 1})], 2, "pods"),
        ([quota("a", {"cpu": 9}), quota("b", {"pods": 0})], 0, "pods"),
        ([quota("a", {"cpu": 9})], 5, None),
    ],
)
def test_pods_are_counted(quotas: list[Json], running: int, over: str | None) -> None:
    """A quota of pods counts each pod, whatever it requests."""
    cluster = _cluster(*quotas, *(pod(f"x{number}", "a", {"cpu": "0"}, node="n1") for number in range(running)))
    assert _resource(cluster, pod("p", "a", {"cpu": "0"})) == over
    status = cluster.ledger.quota("a").reported(cluster.ledger.bound("a"))  # type: ignore[union-attr]
    named = "pods" in {**quotas[0]["spec"].get("min", {}), **quotas[0]["spec"].get("max", {})}
    assert status.get("pods") == (str(running) if named else None)


def test_places_for_pods_are_reclaimed() -> None:
    cluster = _cluster(
        quota("a", {"pods": 1}),
        quota("b", {"pods": 2}),
        *(pod(f"x{number}", "a", {"cpu": "0"}, node="n1") for number in range(3)),
    )
    context = PreemptionContext.of(QuotaPod.from_json(pod("p", "b", {"cpu": "0"})), cluster, NOW)
    assert context.shortage == ({}, {"pods": 1})
    assert len(context.possible("n1")) == 3
    assert context.is_possible_victim(context.possible("n1")[0], ReleasedUsage(context))


def test_pods_within_a_min_without_a_number_of_pods_are_not_borrowed() -> None:
    """Another quota's min of pods makes no lender of a namespace that uses its guaranteed cpu."""
    pods = [pod(f"x{number}", "b", {"cpu": "2"}, node="n1") for number in range(2)]
    cluster = _cluster(quota("a", {"cpu": 4, "pods": 5}), quota("b", {"cpu": 4}), *pods)
    assert not cluster.ledger.is_over_min("b")


@pytest.mark.parametrize(
    "name",
    [
        *("requests.cpu", "limits.cpu", "requests.nvidia.com/gpu", "limits.nvidia.com/gpu", "count/jobs.batch", "gpu"),
        "gold.storageclass.storage.k8s.io/requests.storage",
    ],
)
def test_names_without_effect(name: str) -> None:
    cluster = _cluster(quota("a", {name: 1}, {name: 0, "cpu": 4}))
    in_force = cluster.ledger.quota("a")
    assert in_force is not None
    assert in_force.uncounted == [name]
    assert name not in {**in_force.min, **in_force.max, **cluster.ledger.total_min}


@pytest.mark.parametrize(
    ("requests", "beyond"),
    [({MID_CPU: "1"}, [MID_CPU]), ({"cpu": "1"}, []), ({"cpu": "0"}, []), ({"cpu": "5", GPU: "1"}, ["cpu"])],
)
def test_guaranteed_place_is_not_a_guaranteed_amount(requests: dict[str, str], beyond: list[str]) -> None:
    """A min of pods alone lets no pod take another namespace's resources."""
    cluster = _cluster(quota("a", {"pods": 1, "cpu": 4}), quota("b", {"cpu": 1}))
    context = PreemptionContext.of(QuotaPod.from_json(pod("p", "a", requests)), cluster, NOW)
    assert list(context.beyond) == beyond
    cluster.put_pod(pod("x", "a", {"memory": "1"}, node="n1"))
    context = PreemptionContext.of(QuotaPod.from_json(pod("p", "a", requests)), cluster, NOW)
    assert list(context.beyond) == [*beyond, "pods"]
