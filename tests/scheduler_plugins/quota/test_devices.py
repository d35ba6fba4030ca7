"""Devices of ResourceClaims: charged by their DeviceClass, or named as not counted."""

from typing import Any

import pytest

from crds.codec import CodecError
from headroom.cluster.typed_pod import typed_pod
from scheduler_plugins.plugins.capacity_scheduling import NAME, CapacityScheduling
from scheduler_plugins.quota.admission import refusal
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.devices import CLAIMS, TEMPLATES
from scheduler_plugins.quota.quota import MaxMissing
from scheduler_plugins.quota.status.findings import RESOURCES_COUNTED, Surroundings, findings
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tests.scheduler_plugins.objects import NOW, Json
from tests.scheduler_plugins.quota.objects import GPU, node, pod, quota

CLASSES = {"gpu.nvidia.com": GPU, "mig.nvidia.com": GPU, "nic.example.com": "example.com/nic"}


def _claim(name: str, *requests: Json, namespace: str = "a", template: bool = False) -> Json:
    spec = {"devices": {"requests": list(requests)}}
    return {"metadata": {"namespace": namespace, "name": name}, "spec": {"spec": spec} if template else spec}


def _devices(count: int | None = None, kind: str = "gpu.nvidia.com", **more: Any) -> Json:  # noqa: ANN401 - fields
    return {"deviceClassName": kind, **({} if count is None else {"count": count}), **more}


def _exactly(*args: Any, **more: Any) -> Json:  # noqa: ANN401 - as above
    return {"name": "r", "exactly": _devices(*args, **more)}


def _cluster(*quotas: Json, classes: dict[str, str] | None = None) -> QuotaCluster:
    cluster = QuotaCluster("q", MaxMissing.INFINITE, device_classes=CLASSES if classes is None else classes)
    cluster.put_node(node("n1", cpu="100"))
    for item in quotas:
        cluster.put_quota(item)
    return cluster


def _pod(name: str, *claims: Json, place: str = "") -> Json:
    return pod(name, "a", {"cpu": "1"}, node=place, resourceClaims=list(claims))


TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "t"}
CLAIM = {"name": "gpu", "resourceClaimName": "c"}


@pytest.mark.parametrize(
    ("requests", "amounts", "counted"),
    [
        ([_exactly()], {GPU: 1}, True),
        ([_exactly(3)], {GPU: 3}, True),
        (
            [_exactly(2), _exactly(1, "mig.nvidia.com"), _exactly(1, "nic.example.com")],
            {GPU: 3, "example.com/nic": 1},
            True,
        ),
        ([{"name": "r", **_devices(2)}], {GPU: 2}, True),  # as before Kubernetes 1.34
        ([{"name": "r", "firstAvailable": [_devices(1), _devices(4, "mig.nvidia.com")]}], {GPU: 4}, True),
        ([_exactly(1, adminAccess=True)], {}, True),  # it takes no device from others
        ([_exactly(1, "other.example.com"), _exactly(1)], {GPU: 1}, False),
        ([_exactly(allocationMode="All")], {GPU: 1}, False),
        ([_exactly(-5)], {GPU: 0}, True),
        ([_exactly(10**30)], {GPU: 2**53}, True),
        ([_exactly(1)] * 300, {GPU: 256}, False),
        ([], {}, True),
    ],
)
@pytest.mark.parametrize("template", [True, False])
def test_devices_of_a_claim(requests: list[Json], amounts: Json, *, counted: bool, template: bool) -> None:
    cluster = _cluster(quota("a"))
    cluster.put_claim(_claim("t" if template else "c", *requests, template=template), template=template)
    cluster.put_pod(_pod("p", TEMPLATE if template else CLAIM, place="n1"))
    charge = {name: amount for name, amount in cluster.ledger.used("a").items() if name not in {"cpu", "pods"}}
    assert charge.keys() == amounts.keys()
    assert all(charge[name] == amount or amount == 2**53 for name, amount in amounts.items())
    assert cluster.devices.uncounted("a") == (not counted)


def test_claims_are_charged_as_they_come_and_go() -> None:
    """A claim may be seen after its pods; the charge ends with the pod, and is the same however often it is seen."""
    cluster = _cluster(quota("a", None, {GPU: 1}))
    for name in ("p", "p", "r"):
        cluster.put_pod(_pod(name, TEMPLATE, CLAIM, place="n1"))
    assert (cluster.ledger.used("a").get(GPU), cluster.devices.uncounted("a")) == (None, 2)
    cluster.put_claim(_claim("t", _exactly(1), template=True), template=True)
    cluster.put_claim(_claim("c", _exactly(2)), template=False)
    cluster.put_claim(_claim("c", _exactly(2)), template=False)
    assert (cluster.ledger.used("a")[GPU], cluster.devices.uncounted("a")) == (6, 0)
    sources = {source.path: source for source in cluster.sources()}
    sources[CLAIMS].delete("a/c")
    assert (cluster.ledger.used("a")[GPU], cluster.devices.uncounted("a")) == (2, 2)
    for name in ("p", "r"):
        cluster.delete_pod(f"uid-a-{name}")
    assert (cluster.ledger.used("a")[GPU], cluster.devices.uncounted("a")) == (0, 0)
    assert sources[TEMPLATES].identity(_claim("t")) == "a/t"


def test_admission_counts_devices() -> None:
    """The second of two pods exceeds the max, whether the first is bound or only admitted."""
    plugin = CapacityScheduling(device_classes=CLASSES)
    cache = ClusterCache(LoadRules(), {NAME: plugin})
    cluster = cache.plugin_states[NAME]
    assert isinstance(cluster, QuotaCluster)
    cache.put_node(node("n1", cpu="100"))
    cluster.put_quota(quota("a", None, {GPU: 1, "cpu": 9}))
    cluster.put_claim(_claim("t", _exactly(1), template=True), template=True)

    def refused(name: str) -> bool:
        nodes = cache.freeze(NOW).select(["n1"])[0]
        return plugin.pre_filter(cache.read(_pod(name, TEMPLATE)), nodes) is not None

    assert not refused("p")
    cluster.reserve(cache.read(_pod("p", TEMPLATE)), ["n1"], NOW)
    assert refused("r")
    cache.put_pod(_pod("p", TEMPLATE, place="n1"), NOW)
    assert refused("r")
    assert cluster.ledger.bound("a")[GPU] == 1


def test_devices_of_a_large_pod_are_charged() -> None:
    """A bound pod with more labels than are read of a pending one keeps its claims: labels can be added later."""
    cluster = _cluster(quota("a", None, {GPU: 1}))
    cluster.put_claim(_claim("t", _exactly(1), template=True), template=True)
    large = _pod("p", TEMPLATE, place="n1")
    large["metadata"]["labels"] = {f"label-{number}": "" for number in range(101)}
    cluster.put_pod(typed_pod(large))
    assert cluster.ledger.used("a")[GPU] == 1


def test_not_counted_is_reported() -> None:
    """Without a mapping no claim is read; a quota that names devices has the condition."""
    cluster = _cluster(quota("a", None, {GPU: 1}), classes={})
    for name in ("p", "r"):
        cluster.put_pod(_pod(name, TEMPLATE, place="n1"))
    assert not {CLAIMS, TEMPLATES} & {source.path for source in cluster.sources()}
    assert refusal(cluster.pods["uid-a-p"], cluster.ledger, ()) is None

    def condition(uncounted: int) -> list[tuple[str, str]]:
        in_force = cluster.ledger.quota("a")
        assert in_force is not None
        made = findings(in_force, [in_force], Surroundings({}, {}), {}, uncounted)
        return [(finding.reason, finding.message) for finding in made if finding.type == RESOURCES_COUNTED]

    ((reason, message),) = condition(cluster.devices.uncounted("a"))
    assert (reason, message[:30]) == ("DevicesNotCounted", "devices that 2 of its pods get")
    assert condition(0) == []
    cluster.put_quota(quota("a", None, {"cpu": 1}))
    assert condition(2) == []


@pytest.mark.parametrize("spec", [{"devices": []}, {"devices": {"requests": {}}}, {"devices": {"requests": ["x"]}}])
def test_malformed_claim_is_refused(spec: Any) -> None:  # noqa: ANN401 - any JSON
    check = next(source.check for source in _cluster().sources() if source.path == CLAIMS)
    assert check is not None
    with pytest.raises(CodecError, match=r"spec\.devices"):
        check({**_claim("c"), "spec": spec})


def test_mapped_resources_are_extended() -> None:
    (problem,) = CapacityScheduling(device_classes={"gpu.nvidia.com": "cpu"}).problems()
    assert (problem.field, "is not an extended resource" in problem.message) == ("deviceClasses.gpu.nvidia.com", True)
