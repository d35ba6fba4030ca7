"""Admission of pods by quota."""

import random
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import strategies as st

from scheduler_plugins.plugins.capacity_scheduling import sentence
from scheduler_plugins.quota.admission import QuotaExceeded, demands, refusal, terminating_charge
from scheduler_plugins.quota.amounts import Amounts, plus
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.hold import LONGEST_SECONDS, Hold
from scheduler_plugins.quota.ledger import QuotaLedger
from scheduler_plugins.quota.nominations import Nomination
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import MaxMissing
from scheduler_plugins.quota.unconfirmed import UnconfirmedReservations
from tests.fuzz.strength import fuzz
from tests.scheduler_plugins.objects import NOW, Json, at
from tests.scheduler_plugins.quota.objects import GPU, node, pod, quota

A = quota("a", {"cpu": 4, GPU: 4}, {"cpu": 6, GPU: 6})
B = quota("b", {"cpu": 6, GPU: 6}, {"cpu": 8, GPU: 8})


def _cluster(*items: Json, max_missing: MaxMissing = MaxMissing.ZERO) -> QuotaCluster:
    cluster = QuotaCluster("q", max_missing)
    cluster.put_node(node("n1", cpu="100"))
    for item in items:
        if "containers" in item["spec"]:
            cluster.put_pod(item)
        else:
            cluster.put_quota(item)
    return cluster


def _over(cluster: QuotaCluster, item: Json, now: float = 0) -> QuotaExceeded | None:
    return refusal(QuotaPod.from_json(item), cluster.ledger, cluster.nominations(NOW + now), cluster.unconfirmed)


def _sentence(cluster: QuotaCluster, item: Json, now: float = 0) -> str:
    over = _over(cluster, item, now)
    return "" if over is None else sentence(over)


def _gpus(count: int) -> dict[str, str]:
    return {GPU: str(count)}


# Rejected pods, and the messages


@pytest.mark.parametrize(
    ("items", "fits", "refused", "says"),
    [
        pytest.param(
            [A, B, pod("x", "a", _gpus(5), node="n1")],
            _gpus(1),
            _gpus(2),
            f"{GPU} used 5 + requested 2 > max 6 (min 4, sum of min 10)",
            id="max",
        ),
        pytest.param(
            [A, B, pod("x", "a", {"cpu": "3500m"}, node="n1"), pod("y", "b", {"cpu": "5"}, node="n1")],
            {"cpu": "1500m"},
            {"cpu": "1501m"},
            "cpu used by all quotas 8500m + requested 1501m > sum of min 10 (used 3500m, min 4, max 6)",
            id="sum of min",
        ),
        pytest.param(
            [quota("a", {"cpu": 4, "memory": "8Gi"}, {"cpu": 4})],
            {"cpu": "4"},
            {"memory": "1Gi"},
            "memory used 0 + requested 1Gi > max 0 (min 8Gi, sum of min 8Gi; memory is not in its max)",
            id="resource that max leaves out",
        ),
        pytest.param(
            [quota("a", {"memory": "8Gi"}, {})],
            {"memory": "0"},
            {"memory": "1Gi"},
            "memory used 0 + requested 1Gi > max 0 (min 8Gi, sum of min 8Gi; memory is not in its max)",
            id="empty max",
        ),
    ],
)
def test_bound_is_reached_not_exceeded(items: list[Json], fits: Json, refused: Json, says: str) -> None:
    cluster = _cluster(*items)
    assert _sentence(cluster, pod("p", "a", fits)) == ""
    assert _sentence(cluster, pod("p", "a", refused)) == f"ElasticQuota a/q: {says}"


@pytest.mark.parametrize("maximum", [{"cpu": 4}, {}])
def test_missing_max_may_be_unlimited(maximum: Json) -> None:
    """With `infinite`, a resource without a max is bounded by the sum of min alone."""
    cluster = _cluster(quota("a", {"cpu": 4, "memory": "8Gi"}, maximum), max_missing=MaxMissing.INFINITE)
    assert _sentence(cluster, pod("p", "a", {"memory": "8Gi"})) == ""
    assert _sentence(cluster, pod("p", "a", {"memory": "9Gi"})) == (
        "ElasticQuota a/q: memory used by all quotas 0 + requested 9Gi > sum of min 8Gi "
        "(used 0, min 8Gi, max unlimited)"
    )


def test_namespace_without_quota() -> None:
    cluster = _cluster(A, pod("x", "a", _gpus(6), node="n1"))
    assert _over(cluster, pod("p", "free", {GPU: "99", "cpu": "99"})) is None


def test_quota_lowered_below_used() -> None:
    cluster = _cluster(A, B, *(pod(f"x{number}", "a", {"cpu": "1"}, node="n1") for number in range(4)))
    cluster.put_quota(quota("a", {"cpu": 1}, {"cpu": 2, GPU: 6}))
    assert _over(cluster, pod("p", "a", {"cpu": "0"})) is None
    assert _sentence(cluster, pod("p", "a", {"cpu": "1"})) == (
        "ElasticQuota a/q: cpu used 4 + requested 1 > max 2 (min 1, sum of min 7)"
    )
    for number in range(3):
        cluster.delete_pod(f"uid-a-x{number}")
    assert _over(cluster, pod("p", "a", {"cpu": "1"})) is None


def test_own_charge_does_not_count() -> None:
    cluster = _cluster(A, B)
    pending = pod("p", "a", _gpus(6))
    cluster.ledger.admit(QuotaPod.from_json(pending))
    assert _over(cluster, pending) is None
    assert _sentence(cluster, pod("other", "a", _gpus(1))) == (
        f"ElasticQuota a/q: {GPU} used 6 + requested 1 > max 6 (min 4, sum of min 10)"
    )


# Claims


def test_claims_count_by_namespace_and_priority() -> None:
    claimant = pod("c", "a", _gpus(2), priority=5, nominated="n1")
    cluster = _cluster(A, B, pod("x", "a", _gpus(4), node="n1"), claimant)
    assert _sentence(cluster, pod("p", "a", _gpus(1), priority=5)) == (
        f"ElasticQuota a/q: {GPU} used 4 + claimed by pods before it 2 + requested 1 > max 6 (min 4, sum of min 10)"
    )
    assert _over(cluster, pod("p", "a", _gpus(1), priority=6)) is None
    assert _over(cluster, claimant) is None
    # although the claim has a lower priority
    assert _sentence(cluster, pod("p", "b", _gpus(5), priority=9)) == (
        f"ElasticQuota b/q: {GPU} used by all quotas 4 + claimed by pods before it 2 + requested 5 > sum of min 10 "
        "(used 0, min 6, max 8)"
    )
    assert _over(cluster, pod("p", "b", _gpus(4), priority=9)) is None
    cluster.put_pod(pod("y", "a", _gpus(1), node="n1"))
    assert _over(cluster, pod("p", "b", _gpus(5))) is None  # a is over min now: its claims no longer count


@pytest.mark.parametrize(
    "claimant",
    [
        pytest.param(pod("c", "a", _gpus(2), nominated="gone"), id="nominated to a missing node"),
        pytest.param(pod("c", "free", _gpus(2), nominated="n1"), id="without a quota"),
        pytest.param(pod("c", "a", _gpus(2), hold=Hold("n1", NOW)), id="hold that has expired"),
        pytest.param(pod("c", "a", _gpus(2), hold=Hold("n1", NOW + LONGEST_SECONDS + 1)), id="hold without end"),
        pytest.param(pod("c", "a", _gpus(2), nominated="n1", phase="Failed"), id="ended"),
    ],
)
def test_not_a_claim(claimant: Json) -> None:
    cluster = _cluster(A, B, pod("x", "a", _gpus(5), node="n1"), claimant)
    assert _over(cluster, pod("p", "a", _gpus(1))) is None


AFFINITY = "0/5 nodes are available: 5 node(s) didn't match Pod's node affinity/selector. preemption: 0/5 nodes are "
FULL = "0/5 nodes are available: 1 Insufficient cpu, 4 node(s) had untolerated taint(s)."


def _refused(message: str, since: float | None = 0, reason: str = "Unschedulable", node: str = "n1") -> Json:
    item = pod("c", "a", _gpus(2), nominated=node)
    refusal = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    item["status"]["conditions"] = [{**refusal, **({} if since is None else {"lastTransitionTime": at(since)})}]
    return item


@pytest.mark.parametrize(
    ("claimant", "claims"),
    [
        (_refused(AFFINITY), False),
        (_refused(f"{AFFINITY}available: 5 Insufficient cpu.", -86_400), False),
        (_refused("Scheduling is blocked due to non-empty scheduling gates", reason="SchedulingGated"), False),
        (_refused("0/1 nodes are available: 1 node(s) had volume node affinity conflict."), False),
        (_refused(FULL), True),
        (_refused(FULL, None), True),
        (_refused(""), True),
        (_refused("0/1 nodes are available: 1 Too many pods."), True),
        (_refused("0/1 nodes are available: 1 node(s) resources reserved for a preempting pod."), True),
        (_refused("0/1 nodes are available: 1 ElasticQuota a/q: cpu used 4 + requested 1 > max 4."), True),
        (_refused(FULL, -299), True),
        (_refused(FULL, -300), False),  # without a binding for some minutes
        (_refused(FULL, 86_400), True),  # a clock is wrong
        (_refused(FULL, -86_400, node="gone"), False),
    ],
)
def test_nomination_ends(claimant: Json, *, claims: bool) -> None:
    """kube-scheduler may never clear a nomination: one that waits for no pod to end is no claim."""
    cluster = _cluster(A, B, pod("x", "a", _gpus(5), node="n1"), claimant)
    assert (_over(cluster, pod("p", "a", _gpus(1))) is not None) is claims
    assert _over(cluster, pod("p", "a", _gpus(1)), now=300) is None


def test_new_nomination_is_a_new_claim() -> None:
    """A pod that has waited for a day and is nominated now has a claim; it ends later, and a hold lasts by itself."""
    cluster = _cluster(A, B, pod("x", "a", _gpus(5), node="n1"), _refused(FULL, -86_400, node=""))
    wants = pod("p", "a", _gpus(1))
    cluster.put_pod(_refused(FULL, -86_400))
    assert _over(cluster, wants, now=10) is not None
    cluster.put_pod({**_refused(FULL, -86_400), "spec": {**_refused(FULL)["spec"], "schedulerName": "s"}})
    assert [_over(cluster, wants, now=now) is not None for now in (309, 310)] == [True, False]
    held = pod("c", "a", _gpus(2), nominated="n1", hold=Hold("n1", NOW + 900))
    cluster.put_pod(held)
    assert [_over(cluster, wants, now=now) is not None for now in (899, 900)] == [True, False]
    cluster.put_pod(_refused(FULL, node=""))
    cluster.put_pod(_refused(FULL))
    assert _over(cluster, wants, now=901) is not None
    cluster.delete_pod("uid-a-c")
    assert _over(cluster, wants, now=901) is None


def test_counted_once_over_charge_hold_and_nomination() -> None:
    """A pod that is nominated, holds resources and is reserved is charged once, and once bound, too."""
    claimant = pod("c", "a", _gpus(2), nominated="n1", hold=Hold("n1", NOW + 60))
    cluster = _cluster(A, B, pod("x", "a", _gpus(3), node="n1"), claimant)
    cluster.ledger.admit(QuotaPod.from_json(claimant))
    for now_bound in (False, True):
        if now_bound:
            cluster.put_pod({**claimant, "spec": {**claimant["spec"], "nodeName": "n1"}})
        assert _sentence(cluster, pod("p", "a", _gpus(1))) == ""
        assert _sentence(cluster, pod("p", "a", _gpus(2))) == (
            f"ElasticQuota a/q: {GPU} used 5 + requested 2 > max 6 (min 4, sum of min 10)"
        )


def test_hold_lifetime() -> None:
    cluster = _cluster(A, B, pod("x", "a", _gpus(4), node="n1"), pod("c", "a", _gpus(2), hold=Hold("n1", NOW + 60)))
    pending = pod("p", "a", _gpus(1))
    assert [bool(_over(cluster, pending, now)) for now in (0, 59, 60, 30)] == [True, True, False, True]


def test_claims_replace_terminating_victims() -> None:
    """The usage of another claim's victims does not count beside that claim, and is not free before it."""
    victims = [pod(f"v{number}", "a", _gpus(2), node="n1") for number in range(2)]
    holds = [pod(f"h{number}", "b", _gpus(2), hold=Hold("n1", NOW + 60, (f"uid-a-v{number}",))) for number in range(2)]
    running = [pod("x", "a", _gpus(2), node="n1"), pod("y", "b", _gpus(4), node="n1")]
    cluster = _cluster(A, quota("b", {"cpu": 6, GPU: 6}), *victims, *running, *holds)
    assert _sentence(cluster, holds[0]) == (
        f"ElasticQuota b/q: {GPU} used by all quotas 10 + requested 2 > sum of min 10 (used 4, min 6, max unlimited)"
    )
    cluster.delete_pod("uid-a-v0")
    assert _over(cluster, holds[0]) is None  # although the other victim still exists, and its holder claims 2
    unrelated = _sentence(cluster, pod("p", "b", _gpus(1)))
    assert unrelated == (
        f"ElasticQuota b/q: {GPU} used by all quotas 8 - terminating 2 + claimed by pods before it 4 + requested 1 > "
        "sum of min 10 (used 4, min 6, max unlimited)"
    )


@pytest.mark.parametrize(
    ("requester", "holder", "victim", "own", "everything"),
    [
        pytest.param("a", "a", "a", 2, 2, id="all of one namespace"),
        pytest.param("b", "b", "a", 0, 2, id="for the own namespace, of another"),
        pytest.param("a", "b", "a", 0, 2, id="for another namespace, of the own"),
        pytest.param("a", "b", "free", 0, 0, id="of a namespace without a quota"),
        pytest.param("a", "free", "a", 0, 0, id="for a namespace without a quota"),
    ],
)
def test_leaving_amounts(requester: str, holder: str, victim: str, own: int, everything: int) -> None:
    """GPUs of a victim count as leaving for a claim that counts for the pod, per namespace only if both are in it."""
    hold = Hold("n1", NOW + 60, (f"uid-{victim}-v",))
    holding = pod("h", holder, _gpus(2), priority=5, hold=hold)
    cluster = _cluster(A, B, pod("v", victim, _gpus(2), node="n1"), holding)

    def leave(item: Json) -> list[int]:
        return [
            entry.get(GPU, 0)
            for entry in terminating_charge(QuotaPod.from_json(item), cluster.ledger, cluster.nominations(NOW))
        ]

    assert leave(pod("p", requester, priority=5)) == [own, everything]
    assert leave(pod("p", requester, priority=6)) == ([0, 0] if requester == holder else [own, everything])
    assert leave(holding) == [0, 0]  # its own claim does not count
    cluster.put_pod(pod("more", "b", _gpus(7), node="n1"))
    over_min = holder == "b" and requester != "b"  # claims of another namespace that is over min do not count
    assert leave(pod("p", requester, priority=5)) == ([0, 0] if over_min else [own, everything])
    cluster.ledger.admit(QuotaPod.from_json(holding))
    assert leave(pod("p", requester, priority=5)) == [0, 0]  # charged already


def test_unconfirmed_pods_add_to_usage() -> None:
    """Reserved pods count for their namespace and for all; the pod of the request does not."""
    cluster = _cluster(A, B, pod("x", "a", _gpus(3), node="n1"))
    unconfirmed = [QuotaPod.from_json(pod(name, "a", _gpus(2))) for name in ("d", "p")]
    cluster.unconfirmed = UnconfirmedReservations(unconfirmed)
    assert _over(cluster, pod("p", "a", _gpus(1))) is None
    assert _sentence(cluster, pod("p", "a", _gpus(2))) == (
        f"ElasticQuota a/q: {GPU} used 3 + possibly admitted before a restart 2 + requested 2 > max 6 "
        "(min 4, sum of min 10; waits until pods of a that were pending at the extender's start are bound or requested,"
        " 30 s at most)"
    )
    cluster.ledger.admit(unconfirmed[0])
    assert _over(cluster, pod("p", "a", _gpus(1))) is None
    assert cluster.unconfirmed.drop("uid-a-d")
    assert not cluster.unconfirmed.drop("uid-a-d")


# Comparison with the wording of the rules


def _demands(incoming: QuotaPod, ledger: QuotaLedger, nominations: Iterable[Nomination]) -> tuple[Amounts, Amounts]:
    local, total = incoming.charge, incoming.charge
    for nomination in nominations:
        if nomination.uid == incoming.uid or ledger.charge_of(nomination.uid) is not None:
            continue
        if nomination.namespace == incoming.namespace:
            if nomination.priority >= incoming.priority:
                local, total = plus(local, nomination.charge), plus(total, nomination.charge)
        elif ledger.quota(nomination.namespace) is not None and not ledger.is_over_min(nomination.namespace):
            total = plus(total, nomination.charge)
    return local, total


def _crowd(lot: random.Random) -> Sequence[Json]:
    items = [A, B]
    for number in range(lot.randint(0, 12)):
        requests = {lot.choice(["cpu", GPU]): str(lot.randint(0, 3))}
        nominated, until = lot.choice(["", "n1", "gone"]), NOW + lot.choice([-1, 60])
        hold = Hold("n1", until) if lot.random() < 0.4 else None
        place = "n1" if lot.random() < 0.3 else ""
        namespace = lot.choice(["a", "a", "b", "free"])
        priority = lot.choice([0, 5, 9])
        made = pod(f"p{number}", namespace, requests, node=place, priority=priority, nominated=nominated, hold=hold)
        items.append(made)
    return items


@fuzz(seed=st.integers(0, 2**32))
def test_sums_match_claims(seed: int) -> None:
    lot = random.Random(seed)  # noqa: S311 - a repeatable test
    cluster = _cluster(*_crowd(lot))
    for _ in range(8):
        candidate = lot.choice([*cluster.pods.values(), QuotaPod.from_json(pod("new", "a", priority=5))])
        nominations = cluster.nominations(NOW)
        local, total = demands(candidate, cluster.ledger, nominations)
        right = _demands(candidate, cluster.ledger, list(nominations))
        assert local == right[0]  # the comparison includes which scalars are named
        assert all(total.get(name, 0) == right[1].get(name, 0) for name in {*total, *right[1]})
        assert not any(terminating_charge(candidate, cluster.ledger, nominations))
        if not candidate.node:
            cluster.ledger.admit(candidate)
        if lot.random() < 0.3:
            cluster.delete_pod(candidate.uid)
        if lot.random() < 0.3:
            cluster.unreserve(candidate.uid)
