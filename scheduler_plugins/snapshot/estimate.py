"""Estimated usage of a pod from its spec, and allocatable of a node: Koordinator's default estimator."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from crds import names
from crds.priority import PriorityBand, priority_class
from headroom.cluster.pod import pod_limits, pod_requests
from headroom.cluster.resize import Resize, in_effect
from headroom.runtime.bounded_cache import BoundedCache, of_json
from scheduler_plugins.snapshot.units import LARGEST, Vector, round_half_away, units, unix_time

_COLOCATED: Final[Mapping[PriorityBand, Mapping[str, str]]] = {
    PriorityBand.BATCH: {"cpu": names.BATCH_CPU, "memory": names.BATCH_MEMORY},
    PriorityBand.MID: {"cpu": names.MID_CPU, "memory": names.MID_MEMORY},
}
"""The resources for CPU and memory of these bands, beside the native ones."""

_UNREQUESTED: Final[Mapping[str, int]] = {"cpu": 250, "memory": 200 * 2**20}
"""The estimate of a pod without requests: 250 milli-cores, 200 MiB. Not scaled."""

LONGEST_ANNOTATION: Final = 4096  # an annotation that is longer is not read. [characters]
_LONGEST_REASON: Final = 200
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_INT64: Final = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True, eq=False)
class LoadRules:
    """The rules of load: the resources, the estimates of pods, and the time for which an estimate counts."""

    resources: tuple[str, ...] = ("cpu", "memory")
    """The resources of every load vector, sorted."""
    factors: Mapping[str, int] = field(default_factory=lambda: {"cpu": 85, "memory": 70})
    """Percent of a pod's request (or limit, if larger) that it is expected to use, per resource."""
    seconds_after_scheduled: int | None = None
    """For how long after scheduling a pod's estimate counts even if it reports less; None or 0: not. [s]"""
    seconds_after_initialized: int | None = None
    """The same, from the end of the init containers on; it then replaces the former. [s]"""
    allow_customize: bool = False
    """True if a pod's annotations may replace factors and seconds."""
    prod_includes_system: bool = False
    """True if the usage of the Prod pods includes the system's."""


def estimate_pod(pod: Mapping[str, Any], rules: LoadRules) -> dict[str, int]:
    """The usage to expect of a pod, by native resource name, in milli-cores for cpu and base units for the rest.

    estimate = min(round(max(request, limit) * factor / 100), limit, if there is one)

    A pod of 4 cores and 8Gi is expected to use 3400 milli-cores and 6012954214 bytes by the default factors (85, 70).
    A Mid or Batch pod requests its tier's resources; native requests count, too, where they are larger:
    the creator of a pod chooses its labels, and no label makes it use less. For a pod that is being resized in
    place the reserved amounts count: it cannot use an amount that its node never gives it.

    Raises QuantityError: a request or limit is not a quantity.
    """
    annotation = _annotations(pod).get(names.ANNOTATION_ESTIMATED_SCALING_FACTORS)
    return _estimates(pod, priority_class(pod), _factors(annotation, rules))


def _estimates(pod: Mapping[str, Any], band: PriorityBand, factors: Mapping[str, int]) -> dict[str, int]:
    requests, limits = pod_requests(pod), pod_limits(pod)
    return {
        name: max(_estimate(actual, requests, limits, factor) for actual in _requested(name, band, requests, limits))
        for name, factor in factors.items()
    }


def estimate_vector(pod: Mapping[str, Any], rules: LoadRules) -> Vector:
    """The usage to expect of a pod (see `estimate_pod`), per resource of the rules.

    Pods of one workload have the same requests, so the result is cached by them.

    Raises QuantityError: a request or limit is not a quantity.
    """
    spec = in_effect(pod, Resize.SET_ASIDE).get("spec") or {}
    requested = {
        "containers": [_requests(container) for container in spec.get("containers") or ()],
        "initContainers": [_requests(container) for container in spec.get("initContainers") or ()],
        "resources": spec.get("resources"),
        "overhead": spec.get("overhead"),
    }
    annotation = _annotations(pod).get(names.ANNOTATION_ESTIMATED_SCALING_FACTORS) if rules.allow_customize else None
    return _remembered((rules, priority_class(pod), json.dumps(requested), annotation))


def _requests(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"resources": container.get("resources"), "restartPolicy": container.get("restartPolicy")}


def _estimated(requested: tuple[LoadRules, PriorityBand, str, str | None]) -> Vector:
    rules, band, spec, annotation = requested
    factors = _factors(annotation, rules)  # an annotation may name thousands
    wanted = {name: factors[name] for name in rules.resources if name in factors}
    estimate = _estimates({"spec": json.loads(spec)}, band, wanted)
    return tuple(estimate.get(name, 0) for name in rules.resources)


_remembered: Final[BoundedCache[tuple[LoadRules, PriorityBand, str, str | None], Vector]] = BoundedCache(
    _estimated, 16 * 2**20
)


def _requested(
    resource: str, band: PriorityBand, requests: Mapping[str, Fraction], limits: Mapping[str, Fraction]
) -> tuple[str, ...]:
    """The names of a resource in a pod's requests."""
    colocated = _COLOCATED.get(band, {}).get(resource, resource)
    if not (requests.get(colocated) or limits.get(colocated)):
        return (resource,)
    # Limits alone do not count: a Mid pod has native ones beside its tier's amounts, so that kubelet enforces them.
    return (colocated, resource) if requests.get(resource) else (colocated,)


def _estimate(actual: str, requests: Mapping[str, Fraction], limits: Mapping[str, Fraction], factor: int) -> int:
    nothing = Fraction(0)
    limit = limits.get(actual, nothing)
    requested = max(limit, requests.get(actual, nothing))
    if requested == 0:
        return _UNREQUESTED.get(actual, 0)
    scaled = min(
        int(round_half_away(min(float(units(actual, requested)) * float(factor) / 100, float(LARGEST)))), LARGEST
    )
    return min(scaled, units(actual, limit)) if limit > 0 else scaled


def _factors(text: str | None, rules: LoadRules) -> Mapping[str, int]:
    if not text or not rules.allow_customize:
        return rules.factors
    return {**rules.factors, **_custom_factors(text)}


def _read_factors(text: str) -> Mapping[str, int]:
    """The usable factors of an annotation: one value that is no integer spoils all, a negative one only itself."""
    try:
        factors = integers(json.loads(text)) if len(text) <= LONGEST_ANNOTATION else {}
    except (ValueError, RecursionError):
        return {}
    return {name: factor for name, factor in (factors or {}).items() if factor >= 0}


_custom_factors: Final = BoundedCache(_read_factors, 2**20, of_json)


def integers(data: object) -> dict[str, int] | None:
    """A map to integers as Go reads one from JSON: of 64 bits, null is 0. None: it is something else."""
    if not isinstance(data, dict):
        return None
    result = {name: 0 if number is None else number for name, number in data.items()}
    return result if all(type(number) is int and number in _INT64 for number in result.values()) else None


@dataclass(frozen=True, slots=True)
class EstimationWindow:
    """Until when a pod's estimate counts even though its usage is reported."""

    seconds_after_scheduled: int | None  # from the time of scheduling on. [s]
    until: float | None  # a fixed end, known once the pod is initialized; it replaces the former. [unix s]

    def end(self, scheduled: float) -> float | None:
        """The end of the window of a pod that was scheduled then; None if it has none; in unix seconds."""
        if self.until is not None:
            return self.until
        return None if self.seconds_after_scheduled is None else scheduled + self.seconds_after_scheduled


_NO_WINDOW: Final = EstimationWindow(None, None)


def estimation_window(pod: Mapping[str, Any], rules: LoadRules) -> EstimationWindow:
    """The forced estimation window of a pod, by its annotations (where allowed) and the rules."""
    if not (rules.allow_customize or rules.seconds_after_scheduled or rules.seconds_after_initialized):
        return _NO_WINDOW
    scheduled = _seconds(pod, rules, names.ANNOTATION_ESTIMATED_SECONDS_AFTER_SCHEDULED, rules.seconds_after_scheduled)
    after = _seconds(pod, rules, names.ANNOTATION_ESTIMATED_SECONDS_AFTER_INITIALIZED, rules.seconds_after_initialized)
    initialized = condition_time(pod, "Initialized") if after else None
    until = initialized + after if after and initialized is not None else None
    return _NO_WINDOW if scheduled is None and until is None else EstimationWindow(scheduled, until)


def _seconds(pod: Mapping[str, Any], rules: LoadRules, annotation: str, default: int | None) -> int | None:
    """The annotation's seconds, else the default; None where that switches the window off (0 or less)."""
    text = _annotations(pod).get(annotation, "") if rules.allow_customize else ""
    stated = int(text) if _INTEGER.fullmatch(text) else -1
    seconds = stated if stated >= 0 and stated in _INT64 else default
    return seconds if seconds is not None and seconds > 0 else None


def condition_time(pod: Mapping[str, Any], kind: str, status: str = "True") -> float | None:
    """Return when a condition of the pod took this status; None: another status, or no time. [unix s]"""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            return unix_time(condition.get("lastTransitionTime")) if condition.get("status") == status else None
    return None


def estimate_node(node: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The quantities that a node has to give, and why its annotation does not count, if so.

    They are those of `status.allocatable`, overlaid by the raw-allocatable annotation.
    """
    allocatable = dict((node.get("status") or {}).get("allocatable") or {})
    raw, problem = _raw_allocatable(_annotations(node))
    return allocatable | raw, problem


def _raw_allocatable(annotations: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """The quantities of the annotation, none if any part of it cannot be read, and why not.

    As Go reads them: null is 0, and blanks around a quantity do not count.
    """
    text = annotations.get(names.ANNOTATION_RAW_ALLOCATABLE)
    if not text:
        return {}, ""
    try:
        amounts = {name: _as_go_reads(amount) for name, amount in annotated(text).items()}
        for name, amount in amounts.items():
            units(name, amount)
    except (ValueError, TypeError, RecursionError) as error:
        return {}, f"annotation {names.ANNOTATION_RAW_ALLOCATABLE} is ignored: {shortened(error)}"
    return amounts, ""


def annotated(text: str) -> Mapping[str, Any]:
    """The JSON object that a node's annotation holds; null counts as an empty one.

    Raises ValueError: it has another form, or an absurd amount; RecursionError: it is nested too deep.
    """
    if len(text) > LONGEST_ANNOTATION:
        raise ValueError(f"longer than {LONGEST_ANNOTATION} characters")
    parsed = json.loads(text)
    if parsed is not None and not isinstance(parsed, dict):
        raise ValueError(f"{parsed!r} is not an object")
    return parsed or {}


def shortened(error: BaseException) -> str:
    text = str(error).replace("\n", " ")
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}…"


def _as_go_reads(amount: object) -> object:
    return "0" if amount is None else amount.strip() if isinstance(amount, str) else amount


def _annotations(item: Mapping[str, Any]) -> Mapping[str, str]:
    return (item.get("metadata") or {}).get("annotations") or {}


def pod_totals(pod: Mapping[str, Any], kind: str) -> tuple[int, int]:
    """Return a pod's requests or limits of cpu and memory, as Trimaran adds them up. [milli-cores, bytes]

    The containers' sum, at least each init container (a sidecar is one of them), plus overhead; rounded up per
    container. Pod-level resources do not count; while the pod is being resized in place, the
    set aside for it does.

    Raises QuantityError: an amount is not a quantity.
    """
    spec = in_effect(pod, Resize.SET_ASIDE).get("spec") or {}
    cpu, memory = 0, 0
    for container in spec.get("containers") or ():
        more = _amounts((container.get("resources") or {}).get(kind))
        cpu, memory = cpu + more[0], memory + more[1]
    for container in spec.get("initContainers") or ():
        least = _amounts((container.get("resources") or {}).get(kind))
        cpu, memory = max(cpu, least[0]), max(memory, least[1])
    more = _amounts(spec.get("overhead"))
    return cpu + more[0], memory + more[1]


def is_best_effort(pod: Mapping[str, Any]) -> bool:
    """Return whether nothing of a pod requests or limits cpu or memory: its QoS class is BestEffort."""
    spec = pod.get("spec") or {}
    for part in (spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        stated = part.get("resources") or {}
        if any(_amounts(stated.get("requests"))) or any(_amounts(stated.get("limits"))):
            return False
    return True


def _amounts(amounts: Mapping[str, Any] | None) -> tuple[int, int]:
    if not amounts:
        return 0, 0
    return units("cpu", amounts.get("cpu", "0")), units("memory", amounts.get("memory", "0"))
