"""The ledger of quotas."""

import random

from hypothesis import strategies as st

from scheduler_plugins.quota.amounts import NOTHING, Amounts, plus
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.ledger import QuotaLedger
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import MaxMissing, Quota
from tests.fuzz.strength import fuzz
from tests.scheduler_plugins.objects import Json
from tests.scheduler_plugins.quota.objects import GPU, miscounted, pod, quota


def _ledger(*items: Json) -> QuotaLedger:
    ledger = QuotaLedger()
    for item in items:
        if "containers" in item["spec"]:
            ledger.put_pod(QuotaPod.from_json(item))
        else:
            ledger.put_quota(Quota.from_json(item))
    return ledger


def test_pods_before_the_quota_count() -> None:
    ledger = _ledger(pod("old", "a", node="n1"), quota("a", {"cpu": 4}))
    assert ledger.used("a") == {"cpu": 1000, "pods": 1}
    assert ledger.total_used == {"cpu": 1000, "pods": 1}
    assert ledger.total_min == {"cpu": 4000}


def test_namespace_without_quota_is_not_among_all() -> None:
    ledger = _ledger(quota("a", {"cpu": 4}), pod("x", "a", node="n1"), pod("y", "b", node="n1"))
    assert ledger.total_used == {"cpu": 1000, "pods": 1}
    ledger.delete_quota("a-q")
    assert ledger.total_used["cpu"] == 0
    assert ledger.total_min == {}
    assert ledger.used("a") == {"cpu": 1000, "pods": 1}
    ledger.put_quota(Quota.from_json(quota("a", {"cpu": 2})))
    assert ledger.total_used["cpu"] == 1000
    assert ledger.total_min["cpu"] == 2000


def test_oldest_of_several_is_in_force() -> None:
    """Among quotas of a namespace the oldest counts, then the first by name; its deletion puts the next in force."""
    old, new = quota("a", {"cpu": 1}, name="z", age=20), quota("a", {"cpu": 2}, name="b", age=10)
    twin = quota("a", {"cpu": 4}, name="c", age=10)
    ledger = _ledger(new, twin, old)
    in_force = ledger.quota("a")
    assert in_force is not None
    assert in_force.name == "z"
    assert [entry.name for entry in ledger.passed_over("a")] == ["b", "c"]
    assert ledger.total_min == {"cpu": 1000}
    ledger.delete_quota("a-z")
    in_force = ledger.quota("a")
    assert in_force is not None
    assert in_force.name == "b"
    assert ledger.total_min == {"cpu": 2000}
    ledger.delete_quota("a-b")
    assert ledger.total_min == {"cpu": 4000}


def test_quota_is_deleted_and_recreated() -> None:
    ledger = _ledger(quota("a", {"cpu": 1}, uid="first"), pod("x", "a", node="n1"))
    ledger.put_quota(Quota.from_json(quota("a", {"cpu": 2}, uid="second", age=-5)))
    ledger.delete_quota("first")
    assert ledger.total_min == {"cpu": 2000}
    assert ledger.used("a") == {"cpu": 1000, "pods": 1}


def test_quota_of_a_namespace_that_is_deleted() -> None:
    going = quota("a", {"cpu": 4}, {"cpu": 4})
    going["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    ledger = _ledger(going, pod("x", "a", node="n1"), quota("b", {"cpu": 4}))
    assert ledger.total_min == {"cpu": 8000}
    ledger.delete_quota("a-q")
    assert ledger.total_min["cpu"] == 4000
    assert ledger.total_used["cpu"] == 0
    ledger.discharge("uid-a-x")
    assert not ledger.used("a")


def test_resize_is_followed() -> None:
    ledger = _ledger(quota("a"), pod("x", "a", {"cpu": "1"}, node="n1"), pod("x", "a", {"cpu": "4"}, node="n1"))
    assert ledger.used("a") == {"cpu": 4000, "pods": 1}
    ledger.put_pod(QuotaPod.from_json(pod("x", "a", {"cpu": "2", GPU: "1"}, node="n1")))
    assert ledger.used("a") == {"cpu": 2000, GPU: 1, "pods": 1}
    ledger.discharge("uid-a-x")
    assert not any(ledger.used("a").values())
    assert not any(ledger.total_used.values())


def test_ended_pods_release() -> None:
    for phase in ("Succeeded", "Failed", "Unknown"):
        ledger = _ledger(quota("a"), pod("x", "a", node="n1"), pod("x", "a", node="n1", phase=phase))
        assert not any(ledger.used("a").values())
    going = pod("x", "a", node="n1")
    going["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    assert _ledger(quota("a"), going).used("a") == {"cpu": 1000, "pods": 1}


def test_counted_once() -> None:
    ledger = _ledger(quota("a"))
    pending, bound = (QuotaPod.from_json(pod("x", "a", node=node)) for node in ("", "n1"))
    ledger.admit(pending)
    ledger.admit(pending)
    assert ledger.used("a") == {"cpu": 1000, "pods": 1}
    assert ledger.bound("a") == NOTHING
    ledger.put_pod(pending)
    assert ledger.used("a") == {"cpu": 1000, "pods": 1}
    ledger.put_pod(bound)
    ledger.put_pod(bound)
    ledger.admit(pending)
    ledger.withdraw("uid-a-x")
    assert ledger.used("a") == ledger.bound("a") == {"cpu": 1000, "pods": 1}
    assert ledger.total_used == {"cpu": 1000, "pods": 1}


def test_namespaces_are_removed() -> None:
    ledger = QuotaLedger()
    for number in range(50):
        namespace = f"ci-{number}"
        ledger.put_quota(Quota.from_json(quota(namespace, {"cpu": 1})))
        ledger.put_pod(QuotaPod.from_json(pod("x", namespace, node="n1")))
        ledger.delete_quota(f"{namespace}-q")
        ledger.discharge(f"uid-{namespace}-x")
    assert ledger == QuotaLedger(version=ledger.version, total_used={"cpu": 0, "pods": 0})


def test_status_has_the_resources_of_the_quota() -> None:
    item = quota("a", {"cpu": 4, GPU: 2}, {"cpu": 4, "memory": "1Gi", "requests.storage": 5})
    result = Quota.from_json(item, MaxMissing.INFINITE)
    assert result.reported({"cpu": 1500, "memory": 3 * 2**30, "hugepages-2Mi": 2**21}) == {
        "cpu": "1500m",
        GPU: "0",
        "memory": "3Gi",
        "requests.storage": "0",
        "hugepages-2Mi": "2Mi",
    }


def _any_pod(lot: random.Random, name: str) -> Json:
    requests = {entry: str(lot.randint(0, 3)) for entry in lot.sample(["cpu", "memory", GPU], 2)}
    node, phase = lot.choice(["", "n1"]), lot.choice(["", "", "", "Succeeded", "Unknown"])
    return pod(name, lot.choice("ab"), requests, node=node, phase=phase, overhead=lot.choice([None, {"cpu": "10m"}]))


@fuzz(seed=st.integers(0, 2**32))
def test_ledger_equals_recount(seed: int) -> None:
    lot = random.Random(seed)  # noqa: S311 - a repeatable test
    cluster, pods, quotas = QuotaCluster("q", MaxMissing.ZERO), dict[str, Json](), dict[str, Json]()
    tentative: dict[str, QuotaPod] = {}
    for _ in range(60):
        what, name = lot.random(), f"p{lot.randrange(8)}"
        item = _any_pod(lot, name)
        uid = item["metadata"]["uid"] = name
        if what < 0.45:
            pods[uid] = item
            cluster.put_pod(item)
            if item["spec"].get("nodeName") or item["status"]["phase"] == "Succeeded":
                tentative.pop(uid, None)
        elif what < 0.6:
            pods.pop(uid, None)
            tentative.pop(uid, None)
            cluster.delete_pod(uid)
        elif what < 0.7 and uid in pods and not pods[uid]["spec"].get("nodeName"):
            quota_pod = QuotaPod.from_json(pods[uid])
            if quota_pod.live:
                tentative[uid] = quota_pod
                cluster.ledger.admit(quota_pod)
        elif what < 0.75:
            tentative.pop(uid, None)
            cluster.unreserve(uid)
        elif what < 0.9:
            made = quota(lot.choice("ab"), {"cpu": lot.randint(0, 5)}, name=lot.choice("xy"), age=lot.randint(0, 2))
            quotas[made["metadata"]["uid"]] = made
            cluster.put_quota(made)
        else:
            gone = f"{lot.choice('ab')}-{lot.choice('xy')}"
            quotas.pop(gone, None)
            cluster.ledger.delete_quota(gone)
        _as_new(cluster.ledger, pods, quotas, tentative)


def _as_new(
    ledger: QuotaLedger, pods: dict[str, Json], quotas: dict[str, Json], tentative: dict[str, QuotaPod]
) -> None:
    fresh = _ledger(*quotas.values(), *pods.values())
    for entry in tentative.values():
        fresh.admit(entry)
    total: Amounts = NOTHING
    for namespace in "ab":
        assert _same(ledger.used(namespace), fresh.used(namespace))
        assert _same(ledger.bound(namespace), fresh.bound(namespace))
        assert ledger.quota(namespace) == fresh.quota(namespace)
        total = plus(total, ledger.used(namespace)) if ledger.quota(namespace) else total
    assert _same(ledger.total_used, total)
    assert _same(ledger.total_min, fresh.total_min)
    assert not miscounted(ledger, map(QuotaPod.from_json, pods.values()))


def _same(left: Amounts, right: Amounts) -> bool:
    return all(left.get(name, 0) == right.get(name, 0) for name in {*left, *right})
