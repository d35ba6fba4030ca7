"""Mid pods for tests of eviction."""

from crds import names
from manager.inputs import Amounts, PodInputs, Resource
from tests.support.objects import Json, at, mid_pod

MEBIBYTE = 1 << 20


def mid(
    name: str,
    cpu: int = 1000,
    memory: int = 0,
    *,
    priority: int = 7000,
    age: float = 3600.0,
    owner: tuple[str, str] | None = None,
    terminating: bool = False,
    label: str = "",
    annotations: Json | None = None,
) -> Json:
    """A running Mid pod; `memory` in MiB, `age` in seconds, `owner` is kind and name of its controller."""
    made = mid_pod(name, str(cpu), f"{memory}Mi")
    made["spec"]["priority"] = priority
    metadata = made["metadata"]
    metadata["creationTimestamp"] = at(-age)
    metadata["annotations"] = dict(annotations or {})
    if owner is not None:
        metadata["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "controller": True}]
    if terminating:
        metadata["deletionTimestamp"] = at(0)
    if label:
        metadata["labels"][names.LABEL_PRIORITY_CLASS] = label
    return made


def three() -> list[Json]:
    """Three Mid pods of 2 cores each; of the two with the lower priority "young" goes first."""
    return [mid("old", 2000, age=9000), mid("young", 2000, age=100), mid("high", 2000, priority=7900, age=5)]


def facts_of(*pods: Json) -> list[PodInputs]:
    """What the manager keeps of them."""
    return [PodInputs.from_object(pod) for pod in pods]


def short(cpu: int = 0, memory: int = 0) -> Amounts:
    """A shortage; memory in MiB."""
    return Amounts(cpu, memory * MEBIBYTE)


def total(pods: list[PodInputs] | tuple[PodInputs, ...], resource: Resource) -> int:
    """What pods hold of a resource."""
    return sum(pod.mid_requests[resource] for pod in pods)
