"""Leader election by kube-scheduler's own Lease."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from headroom.kube import ApiUnavailable
from headroom.kube.lease import POLL_SECONDS, LeaseFollower, LeaseName, NotLeading

LEASE = LeaseName("kube-system", "headroom-scheduler")
ZERO = 1_700_000_000.0


class Kubernetes:
    def __init__(self) -> None:
        self.now = 0.0
        self.away = False
        self.spec: dict[str, Any] = {}

    def clock(self) -> float:
        return self.now

    async def get(self, path: str) -> Mapping[str, Any]:
        assert path == "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/headroom-scheduler"
        if self.away:
            raise ApiUnavailable("away")
        return {"spec": dict(self.spec)}

    def acquired(self, holder: str, transitions: int = 1) -> None:
        self.spec = {"holderIdentity": f"{holder}_5d7", "leaseDurationSeconds": 15, "leaseTransitions": transitions}
        self.spec["acquireTime"] = self._stamp()
        self.renewed()

    def renewed(self) -> None:
        self.spec["renewTime"] = self._stamp()

    def released(self) -> None:
        self.spec |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        self.renewed()

    def _stamp(self) -> str:
        return datetime.fromtimestamp(ZERO + self.now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@pytest.fixture
def kubernetes() -> Kubernetes:
    return Kubernetes()


def replica(kubernetes: Kubernetes, identity: str) -> LeaseFollower:
    return LeaseFollower(kubernetes, LEASE, identity, kubernetes.clock)


async def live(kubernetes: Kubernetes, seconds: int, *leaders: LeaseFollower, renew: bool = True) -> None:
    for _ in range(0, seconds, 2):
        kubernetes.now += 2
        if renew:
            kubernetes.renewed()
        for leader in leaders:
            await leader.poll()


async def test_without_lease_always_leads(kubernetes: Kubernetes) -> None:
    leader = LeaseFollower(kubernetes, None, "a", kubernetes.clock)
    await leader.poll()
    assert leader.leads()
    assert leader.may_write_for() == float("inf")
    assert leader.description == "leads: there is no other replica"


async def test_first_holder_leads_once_renewed(kubernetes: Kubernetes) -> None:
    """A Lease without a previous holder counts from its first renewal on: only the renewal bounds its age."""
    leader = replica(kubernetes, "a")
    kubernetes.acquired("a", transitions=0)
    await leader.poll()
    assert not leader.leads()
    await live(kubernetes, 2, leader)
    assert leader.leads()
    assert leader.may_write_for() == 15 - 2  # renewed after the read 2 s ago
    assert leader.description == "leads"


async def test_short_lease_is_read_often_enough(kubernetes: Kubernetes) -> None:
    leader = replica(kubernetes, "a")
    kubernetes.acquired("a", transitions=0)
    kubernetes.spec["leaseDurationSeconds"] = 3
    await leader.poll()
    for _ in range(20):
        kubernetes.now += leader.poll_seconds
        kubernetes.renewed()
        await leader.poll()
        assert leader.may_write_for() > 2 * leader.poll_seconds
    kubernetes.acquired("a")
    await leader.poll()
    assert leader.poll_seconds == POLL_SECONDS


async def test_right_ends_with_the_lease(kubernetes: Kubernetes) -> None:
    """Without renewals, and while the API server is away, the right to write ends before the Lease can expire."""
    leader = replica(kubernetes, "a")
    kubernetes.acquired("a", transitions=0)
    await live(kubernetes, 10, leader)
    kubernetes.away = True
    await live(kubernetes, 12, leader)
    assert leader.leads()
    assert leader.may_write_for() == 1
    kubernetes.now += 1
    assert not leader.leads()
    with pytest.raises(NotLeading):
        leader.may_write_for()


async def test_only_its_own_host_counts(kubernetes: Kubernetes) -> None:
    """The identity is compared up to the underscore: host a is not host ab, and ab not a."""
    long, short = replica(kubernetes, "ab"), replica(kubernetes, "a")
    kubernetes.acquired("ab", transitions=0)
    await live(kubernetes, 4, long, short)
    assert long.leads()
    assert not short.leads()
    assert short.description == "is a standby; ab_5d7 leads"


async def test_expired_lease_changes_hands_at_once(kubernetes: Kubernetes) -> None:
    """A replica that saw no renewal for the Lease's duration knows that the former leader no longer writes."""
    old, new = replica(kubernetes, "old"), replica(kubernetes, "new")
    kubernetes.acquired("old", transitions=0)
    await live(kubernetes, 10, old, new)
    assert old.leads()
    await live(kubernetes, 16, old, new, renew=False)
    assert not old.leads()
    kubernetes.acquired("new")
    await live(kubernetes, 2, old, new)
    assert new.leads()
    assert not old.leads()


async def test_stolen_lease_ends_the_right(kubernetes: Kubernetes) -> None:
    """A leader that reads another holder in the Lease stops writing, even before its own time expires."""
    old = replica(kubernetes, "old")
    kubernetes.acquired("old", transitions=0)
    await live(kubernetes, 10, old)
    assert old.may_write_for() > 10
    kubernetes.acquired("new")
    await old.poll()
    assert not old.leads()
    assert old.description == "is a standby; new_5d7 leads"
    with pytest.raises(NotLeading):
        old.may_write_for()
    await live(kubernetes, 60, old)
    assert not old.leads()


async def test_single_leader_at_any_time(kubernetes: Kubernetes) -> None:
    leaders = [replica(kubernetes, name) for name in ("a", "b")]
    kubernetes.acquired("a", transitions=0)
    led = {0: 0, 1: 0}
    for step in range(2000):
        kubernetes.now += 0.5
        holder = kubernetes.spec["holderIdentity"].partition("_")[0]
        if step % 4 == 0 and holder and step % 400 < 300:
            kubernetes.renewed()
        if step % 400 == 350:  # expired, or released and acquired at once
            if step % 800 == 350:
                kubernetes.released()
            kubernetes.acquired("b" if holder == "a" else "a")
        for number, leader in enumerate(leaders):
            if (step * (number + 3)) % 7 < 2:
                await leader.poll()
            led[number] += leader.leads()
        assert not all(leader.leads() for leader in leaders)
    assert min(led.values()) > 100


async def test_same_host_still_leads(kubernetes: Kubernetes) -> None:
    """A kube-scheduler that restarts on the same host keeps its extender: the extender still leads."""
    leader = replica(kubernetes, "a")
    kubernetes.acquired("a", transitions=0)
    await live(kubernetes, 6, leader)
    kubernetes.acquired("a")
    kubernetes.spec["holderIdentity"] = "a_another"
    await leader.poll()
    assert leader.leads()


async def test_malformed_lease_is_ignored(kubernetes: Kubernetes) -> None:
    leader = replica(kubernetes, "a")
    for spec in ({}, {"holderIdentity": "a_1", "renewTime": "soon", "leaseTransitions": 3}):
        kubernetes.spec = dict(spec)
        await leader.poll()
        assert not leader.leads()
