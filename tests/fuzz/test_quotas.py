"""Quotas, and pods as quotas see them, that anybody wrote: the ledger goes on, and nobody gets out of it."""

import json
from typing import Any

from hypothesis import strategies as st

from crds import names
from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling, sentence
from scheduler_plugins.quota.admission import refusal
from scheduler_plugins.quota.amounts import UNLIMITED
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import MaxMissing
from tests.fuzz.strength import fuzz
from tests.fuzz.test_scheduler_objects import SCALARS, VALUES
from tests.scheduler_plugins.objects import NOW
from tests.scheduler_plugins.quota.things import miscounted, node, pod, quota

Json = Any

RESOURCES = st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu", "hugepages-2Mi", "requests.cpu", "odd", ""])
AMOUNTS = st.sampled_from(["0", "1", "500m", "3Gi", "-2", "9Ei", "1e3"]) | st.integers(-3, 9) | SCALARS
LISTS = st.dictionaries(RESOURCES, AMOUNTS, max_size=4)
METADATA = st.fixed_dictionaries(
    {"namespace": st.sampled_from(["a", "b"]) | SCALARS, "name": st.sampled_from(["q", "r", "old"])},
    optional={"uid": st.text(max_size=5), "creationTimestamp": SCALARS | st.just("2025-01-01T00:00:00Z")},
)
QUOTAS = st.fixed_dictionaries(
    {"metadata": METADATA | VALUES},
    optional={"spec": st.fixed_dictionaries({}, optional={"min": LISTS | VALUES, "max": LISTS | VALUES}) | VALUES},
)
HOLDS = st.fixed_dictionaries(
    {},
    optional={
        "node": st.just("n1") | SCALARS,
        "until": st.sampled_from([NOW, NOW + 60, 1e300]) | SCALARS,
        "victims": st.lists(SCALARS, max_size=3) | VALUES,
        "attempt": SCALARS,
    },
)
TEXTS = (
    HOLDS.map(json.dumps) | VALUES.map(json.dumps) | st.text(max_size=20) | st.sampled_from(["[" * 10**5, "9" * 5000])
)
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "phase": SCALARS,
        "nominatedNodeName": SCALARS,
        "conditions": st.lists(VALUES, max_size=2) | VALUES,
        "containerStatuses": st.lists(
            st.fixed_dictionaries({"name": st.just("main") | SCALARS}, optional={"allocatedResources": LISTS | VALUES}),
            max_size=2,
        )
        | VALUES,
    },
)
PODS = st.fixed_dictionaries(
    {"metadata": METADATA | VALUES},
    optional={
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "nodeName": st.just("n1") | SCALARS,
                "priority": SCALARS,
                "overhead": LISTS | VALUES,
                "containers": st.lists(
                    st.fixed_dictionaries({"name": SCALARS, "resources": st.fixed_dictionaries({"requests": LISTS})})
                    | VALUES,
                    max_size=2,
                )
                | VALUES,
            },
        )
        | VALUES,
        "status": STATUSES | VALUES,
    },
)


def _cluster(missing: MaxMissing = MaxMissing.INFINITE) -> QuotaCluster:
    cluster = CapacityScheduling(missing).new_state()
    cluster.put_node(node("n1", cpu="4"))
    cluster.put_quota(quota("a", {"cpu": 2}, {"cpu": 3}))
    cluster.put_pod(pod("x", "a", node="n1"))
    return cluster


def _sound(cluster: QuotaCluster) -> None:
    """The ledger agrees with the pods, and a plain pod can be judged, and told why not."""
    assert not miscounted(cluster.ledger, cluster.pods.values())
    over = refusal(
        QuotaPod.from_json(pod("p", "a", {"cpu": "9"})), cluster.ledger, cluster.nominations(NOW), cluster.unconfirmed
    )
    if over is not None:
        told = sentence(over)
        assert told.startswith("ElasticQuota ")
        assert "\n" not in told
    for each in cluster.ledger.in_force:
        each.reported(cluster.ledger.bound(each.namespace))
    cluster.holding(NOW)


@fuzz(items=st.lists(QUOTAS, max_size=3), missing=st.sampled_from(MaxMissing))
def test_quotas_of_anybody(items: list[Json], missing: MaxMissing) -> None:
    """A quota that cannot be understood is refused as a whole: the last good one stays in force."""
    cluster = _cluster(missing)
    for item in items:
        before = cluster.ledger.quota("a")
        try:
            cluster.put_quota(item)
        except Exception:  # noqa: BLE001 - the watch isolates it, whatever it is
            assert cluster.ledger.quota("a") == before
        _sound(cluster)
    for each in cluster.ledger.in_force:
        assert all(
            isinstance(amount, int) and amount <= UNLIMITED for amount in (*each.min.values(), *each.max.values())
        )


@fuzz(text=TEXTS, placed=st.booleans())
def test_holds_of_anybody(text: str, placed: bool) -> None:  # noqa: FBT001 - both cases
    """Whatever stands in the annotation, the pod is charged, and holds room for some time at most."""
    item = pod("h", "a", {"cpu": "1"}, node="n1" if placed else "", nominated="" if placed else "n1")
    item["metadata"]["annotations"] = {names.ANNOTATION_RECLAIM_HOLD: text}
    cluster = _cluster()
    cluster.put_pod(item)
    assert cluster.ledger.bound("a")["cpu"] == (2000 if placed else 1000)
    assert len(cluster.nominations(NOW)) == (0 if placed else 1)
    hold = Hold.of_pod(item)
    assert hold is None or not hold.lasts(hold.until)
    _sound(cluster)


@fuzz(items=st.lists(PODS, max_size=3))
def test_pods_of_anybody(items: list[Json]) -> None:
    """A pod that cannot be understood changes nothing; one that can is charged what it is counted anew."""
    cluster = _cluster()
    for item in items:
        before = dict(cluster.pods)
        try:
            cluster.put_pod(item)
        except Exception:  # noqa: BLE001 - the watch isolates it, whatever it is
            assert cluster.pods == before
        _sound(cluster)
