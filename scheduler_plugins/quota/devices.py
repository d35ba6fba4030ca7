"""Devices that pods get by ResourceClaims (Dynamic Resource Allocation), as amounts of resources that quotas name."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from headroom.cluster.shape import check_resource_claim, check_resource_claim_template
from scheduler_plugins.quota.amounts import NOTHING, Amounts, larger, plus
from scheduler_plugins.quota.claims import ClaimKey
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.snapshot.source import Source
from scheduler_plugins.snapshot.units import LARGEST

CLAIMS: Final = "/apis/resource.k8s.io/v1/resourceclaims"  # path of the ResourceClaims of all namespaces
TEMPLATES: Final = "/apis/resource.k8s.io/v1/resourceclaimtemplates"  # path of their templates

_MOST: Final = 256  # requests of a claim, and alternatives of a request; API servers allow fewer [items]

Json = Mapping[str, Any]
_Key = TypeVar("_Key", bound=Hashable)


class Devices(NamedTuple):
    """The devices of a claim or a pod."""

    amounts: Amounts  # by resource
    counted: bool = True  # whether these are all of them


class DeviceLedger:
    """The devices of each claim and template, and the pods that name them.

    Args:
        classes: the resource of each DeviceClass; none: claims are not read, and no device is counted.
    """

    def __init__(self, classes: Mapping[str, str] | None = None) -> None:
        self._classes: Final = dict(classes or {})
        self._devices: dict[ClaimKey, Devices] = {}
        self._users: dict[ClaimKey, set[str]] = {}
        self._uncounted: dict[str, set[str]] = {}

    @property
    def reads_claims(self) -> bool:
        return bool(self._classes)

    def put(self, claim: Json, *, template: bool) -> Sequence[str]:
        """Add or update a claim or template. Return the uids of the pods with another charge."""
        key, spec = _key(claim, template), claim.get("spec") or {}
        devices = _devices((spec.get("spec") or {}) if template else spec, self._classes)
        if self._devices.get(key) == devices:
            return ()
        self._devices[key] = devices
        return sorted(self._users.get(key, ()))

    def delete(self, key: ClaimKey) -> Sequence[str]:
        """Forget a claim or template. Return the uids of its pods."""
        self._devices.pop(key, None)
        return sorted(self._users.get(key, ()))

    def charged(self, pod: QuotaPod) -> QuotaPod:
        """Return a pod with its devices in its charge. An unknown claim, and an unmapped one, is not counted."""
        if not pod.claims:
            return pod
        amounts, counted = pod.requested, True
        for key in pod.claims:
            devices = self._devices.get(key, _UNKNOWN)
            amounts, counted = plus(amounts, devices.amounts), counted and devices.counted
        return replace(pod, charge=MappingProxyType(dict(amounts)), devices_counted=counted)

    def put_pod(self, pod: QuotaPod) -> None:
        """Add a live pod, as `charged` returned it."""
        for key in pod.claims:
            self._users.setdefault(key, set()).add(pod.uid)
        if not pod.devices_counted:
            self._uncounted.setdefault(pod.namespace, set()).add(pod.uid)

    def delete_pod(self, pod: QuotaPod) -> None:
        """Forget a pod as it was put."""
        for key in pod.claims:
            _discard(self._users, key, pod.uid)
        if not pod.devices_counted:
            _discard(self._uncounted, pod.namespace, pod.uid)

    def uncounted(self, namespace: str) -> int:
        """Return the number of a namespace's pods with claimed devices that are not charged. [pods]"""
        return len(self._uncounted.get(namespace, ()))


def _discard(sets: dict[_Key, set[str]], key: _Key, uid: str) -> None:
    left = sets.get(key, set())
    left.discard(uid)
    if not left:
        sets.pop(key, None)


_UNKNOWN: Final = Devices(NOTHING, counted=False)


def sources(put: Any, delete: Any) -> Sequence[Source]:  # noqa: ANN401 - of QuotaCluster
    """Further kinds of objects to watch.

    Args:
        put: takes a claim or template, and whether it is a template.
        delete: takes a ClaimKey.
    """
    hint = "does the cluster have Dynamic Resource Allocation (resource.k8s.io/v1), and may we list them?"

    def source(kind: str, path: str, check: Any, *, template: bool) -> Source:  # noqa: ANN401 - as of a Source
        return Source(
            kind,
            path,
            "",
            hint,
            lambda item: "/".join(_key(item, template)[1:]),
            lambda item: put(item, template=template),
            lambda name: delete(ClaimKey(template, *name.split("/", 1))),
            absent_is_empty=True,
            check=check,
        )

    return (
        source("ResourceClaims", CLAIMS, check_resource_claim, template=False),
        source("ResourceClaimTemplates", TEMPLATES, check_resource_claim_template, template=True),
    )


def _key(item: Json, template: bool) -> ClaimKey:  # noqa: FBT001 - private
    metadata = item.get("metadata") or {}
    return ClaimKey(template, str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))


def _devices(spec: Json, classes: Mapping[str, str]) -> Devices:
    """Return the devices of a claim's spec. Of alternatives, the largest amounts count.

    Raises:
        ValueError: there are more requests than can be.
    """
    amounts, counted = NOTHING, True
    requests = (spec.get("devices") or {}).get("requests") or ()
    for request in requests[:_MOST]:
        alternatives = request.get("firstAvailable") or [request.get("exactly") or request]
        most: Amounts = NOTHING
        for part in alternatives[:_MOST]:
            if part.get("adminAccess"):
                continue  # it takes no device from others
            resource, every = classes.get(str(part.get("deviceClassName"))), part.get("allocationMode") == "All"
            counted = counted and resource is not None and not every
            if resource is not None:
                count = part.get("count")
                most = larger(most, {resource: min(max(1 if count is None else count, 0), LARGEST)})
        amounts = plus(amounts, most)
    return Devices(MappingProxyType(dict(amounts)), counted and len(requests) <= _MOST)
