"""Priority band and QoS class of a pod, given as plain Kubernetes JSON.

The rules are Koordinator's: the label wins over the numeric priority, an unknown label value means no band (it does
not fall back to the number), and a pod without a band gets one from its QoS class.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

from crds import names
from crds.quantity import QuantityError, parse_quantity


class PriorityBand(StrEnum):
    """The tier of a pod; the values are the wire names."""

    PROD = "koord-prod"
    MID = "koord-mid"
    BATCH = "koord-batch"
    FREE = "koord-free"
    NONE = ""


class QoS(StrEnum):
    """Koordinator's QoS classes; the values are the wire names."""

    LSE = "LSE"
    LSR = "LSR"
    LS = "LS"
    BE = "BE"
    SYSTEM = "SYSTEM"
    NONE = ""


VALUES: Final[Mapping[PriorityBand, tuple[int, int]]] = {
    PriorityBand.PROD: (9000, 9999),
    PriorityBand.MID: (7000, 7999),
    PriorityBand.BATCH: (5000, 5999),
    PriorityBand.FREE: (3000, 3999),
}
"""The numeric priorities of each band, inclusive."""

DEFAULT_VALUE: Final[Mapping[PriorityBand, int]] = {
    PriorityBand.PROD: 9500,
    PriorityBand.MID: 7500,
    PriorityBand.BATCH: 5500,
    PriorityBand.FREE: 3500,
    PriorityBand.NONE: 0,
}
"""The priority of a band, for a pod without one."""

_QOS_OF_KUBERNETES: Final = {"Guaranteed": QoS.LSR, "Burstable": QoS.LS, "BestEffort": QoS.BE}
_BAND_OF_QOS: Final[Mapping[QoS, PriorityBand]] = {
    QoS.LSE: PriorityBand.PROD,
    QoS.LSR: PriorityBand.PROD,
    QoS.LS: PriorityBand.PROD,
    QoS.SYSTEM: PriorityBand.PROD,
    QoS.BE: PriorityBand.BATCH,
    QoS.NONE: PriorityBand.NONE,
}
_BANDS: Final = {band.value: band for band in VALUES}
_CLASSES: Final = {qos.value: qos for qos in QoS if qos}
_MID_RESOURCES: Final = frozenset({names.MID_CPU, names.MID_MEMORY})
_QOS_RESOURCES: Final = frozenset({"cpu", "memory"})


def band_of_value(priority: int | None) -> PriorityBand:
    """Return the band whose range holds a numeric priority, or `NONE`."""
    if priority is not None:
        for band, (low, high) in VALUES.items():
            if low <= priority <= high:
                return band
    return PriorityBand.NONE


def priority_class_raw(pod: Mapping[str, Any] | None) -> PriorityBand:
    """The band that the pod states by label or priority; `NONE` when it states none or an unknown one.

    As in all functions here, no pod at all (None) has no band, no QoS class and priority 0.
    """
    if pod is None:
        return PriorityBand.NONE
    labels = (pod.get("metadata") or {}).get("labels") or {}
    if names.LABEL_PRIORITY_CLASS in labels:
        return _BANDS.get(labels[names.LABEL_PRIORITY_CLASS], PriorityBand.NONE)
    return band_of_value((pod.get("spec") or {}).get("priority"))


def priority_class(pod: Mapping[str, Any] | None) -> PriorityBand:
    """The stated band, else the one that follows from the QoS class: BE is Batch, every other class Prod."""
    return priority_class_raw(pod) or _BAND_OF_QOS[qos(pod)]


def priority_value(pod: Mapping[str, Any] | None) -> int:
    """The pod's numeric priority, else the default number of its band."""
    stated = ((pod or {}).get("spec") or {}).get("priority")
    return DEFAULT_VALUE[priority_class(pod)] if stated is None else int(stated)


def qos_raw(pod: Mapping[str, Any] | None) -> QoS:
    """The QoS class of the label; `NONE` when it is absent or unknown. Case matters."""
    labels = ((pod or {}).get("metadata") or {}).get("labels") or {}
    return _CLASSES.get(labels.get(names.LABEL_QOS, ""), QoS.NONE)


def qos(pod: Mapping[str, Any] | None) -> QoS:
    """The QoS class of the label, else the one that follows from the Kubernetes QoS class."""
    if pod is None:
        return QoS.NONE
    return qos_raw(pod) or _QOS_OF_KUBERNETES.get(kubernetes_qos(pod), QoS.NONE)


def tier(pod: Mapping[str, Any]) -> PriorityBand:
    """The band under which the pod enters every sum: `PROD`, `MID`, `BATCH` or `FREE`.

    A pod that requests some of `kubernetes.io/mid-*` is Mid with any label; one without a band counts as Prod.
    """
    if requests_mid(pod):
        return PriorityBand.MID
    return priority_class(pod) or PriorityBand.PROD


def requests_mid(pod: Mapping[str, Any]) -> bool:
    """Return whether a container, init container or the overhead requests (or is limited to) any of a Mid resource.

    An amount of 0 takes nothing from Mid, and one that cannot be read counts as not requested, as in every sum: such a
    pod stays in its band, so that a Prod pod's native requests are not published to others for it.
    """
    lists = [resources.get(kind) for resources in _container_resources(pod) for kind in ("requests", "limits")]
    lists.append((pod.get("spec") or {}).get("overhead"))
    return any(_is_some(amounts[name]) for amounts in lists if amounts for name in _MID_RESOURCES if name in amounts)


def _is_some(amount: Any) -> bool:  # noqa: ANN401 - JSON of any type
    try:
        return parse_quantity(amount) > 0
    except QuantityError:
        return False


def kubernetes_qos(pod: Mapping[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort: `status.qosClass` when set, else computed from requests and limits."""
    stated = (pod.get("status") or {}).get("qosClass")
    if stated:
        return str(stated)
    pod_level = (pod.get("spec") or {}).get("resources")
    resources = list(_container_resources(pod)) if pod_level is None else [pod_level]
    requests, limits = _totals(resources, "requests"), _totals(resources, "limits")
    if not requests and not limits:
        return "BestEffort"
    all_limited = all(_positive(part.get("limits")).keys() >= _QOS_RESOURCES for part in resources)
    return "Guaranteed" if all_limited and requests == limits else "Burstable"


def _container_resources(pod: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    spec = pod.get("spec") or {}
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            yield container.get("resources") or {}


def _positive(amounts: Mapping[str, Any] | None) -> dict[str, Fraction]:
    parsed = {name: parse_quantity(text) for name, text in (amounts or {}).items() if name in _QOS_RESOURCES}
    return {name: amount for name, amount in parsed.items() if amount > 0}


def _totals(resources: Iterable[Mapping[str, Any]], kind: str) -> dict[str, Fraction]:
    totals: dict[str, Fraction] = {}
    for part in resources:
        for name, amount in _positive(part.get(kind)).items():
            totals[name] = totals.get(name, Fraction(0)) + amount
    return totals
