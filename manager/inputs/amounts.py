"""Amounts of CPU and memory. Integers only: milli-cores and bytes."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from crds import names


class Resource(StrEnum):
    """The two resources that are published; the values are the names of the native ones."""

    CPU = "cpu"
    MEMORY = "memory"

    @property
    def mid_name(self) -> str:
        return names.MID_CPU if self is Resource.CPU else names.MID_MEMORY

    @property
    def unit(self) -> str:
        return "milli-cores" if self is Resource.CPU else "bytes"


@dataclass(frozen=True, slots=True)
class Amounts:
    """A number per resource, in milli-cores and bytes."""

    cpu: int = 0  # CPU [milli-cores]
    memory: int = 0  # memory [bytes]

    def __getitem__(self, resource: Resource) -> int:
        return self.cpu if resource is Resource.CPU else self.memory

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(self.cpu + other.cpu, self.memory + other.memory)

    def __bool__(self) -> bool:
        return bool(self.cpu or self.memory)


@dataclass(frozen=True, slots=True)
class Measured:
    """A number per resource, in milli-cores and bytes; `None` where unknown."""

    cpu: int | None = None  # CPU [milli-cores]
    memory: int | None = None  # memory [bytes]

    def __getitem__(self, resource: Resource) -> int | None:
        return self.cpu if resource is Resource.CPU else self.memory


LARGEST: Final = 2**63 - 1  # no amount is larger: Kubernetes counts no further


def total(amounts: Iterable[Amounts]) -> Amounts:
    listed = list(amounts)
    return Amounts(*(min(sum(item[resource] for item in listed), LARGEST) for resource in Resource))


NOTHING: Final = Amounts()
UNKNOWN: Final = Measured()
