"""Whose the series in the database are: the name, class, workload, requests and limits of each pod, kept with them.

A backtest on the database needs them, and after a pod has ended nobody else knows them any more.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from agent.numerics.packing import CheckpointError, pack, unpack
from agent.pods import PodRef, Resources
from agent.roster import CLASS_NAMES
from agent.samples import CPU, MEMORY

NAME: Final = "identities"
"""Name of the checkpoint."""
KEPT_SECONDS: Final = 31 * 86400.0
"""How long an ended pod is remembered: as long as the store keeps anything of it by default. [s]"""
MOST: Final = 5000
"""At most so many ended pods are remembered; those that ended first are forgotten first."""
COLUMNS: Final = (
    "uid",
    "node",
    "pod",
    "workload",
    "class",
    "cpu_request_millicores",
    "cpu_limit_millicores",
    "mem_request_mib",
    "mem_limit_mib",
)
"""The columns of `Identities.rows`."""
_MIB: Final = float(1 << 20)


@dataclass(frozen=True, slots=True)
class Identity:
    """One pod."""

    name: str
    """Namespace/name, or the uid where the pod was found in the cgroup tree alone."""
    class_name: str
    """The class that it counts to: prod, mid, batch or free."""
    workload: str | None
    """The workload whose history it shares."""
    requests: Resources
    """What it requests. [milli-cores, bytes]"""
    limits: Resources
    """What it may use at most. [milli-cores, bytes]"""
    ended: float | None = None
    """Since when it is no longer listed; None while it is. [seconds since 1970]"""


_FIELDS: Final = tuple(field.name for field in fields(Identity))


class Identities:
    """The pods of this node, those that ended lately included."""

    def __init__(self, node: str = "") -> None:
        """Knows nobody yet.

        Args:
            node: Name of this node.
        """
        self.node = node
        """Name of the node, as of the last checkpoint where it was restored."""
        self.pods: dict[str, Identity] = {}
        """By uid."""
        self._listed: tuple[PodRef, ...] | None = None
        self._packed: bytes | None = None

    def update(self, now: float, pods: Sequence[PodRef]) -> None:
        """Take in which pods are here now.

        Args:
            now: The time. [seconds since 1970]
            pods: The pods on this node.
        """
        listed = tuple(pods)
        if listed == self._listed:
            return
        self._listed, self._packed = listed, None
        present = {pod.uid: pod for pod in listed}
        for uid, known in list(self.pods.items()):
            if uid not in present and known.ended is None:
                self.pods[uid] = replace(known, ended=now)
        self.pods.update((uid, _identity(pod)) for uid, pod in present.items())
        self._forget(now)

    def checkpoint(self) -> bytes:
        """Everybody as bytes: the same object as before where nothing changed."""
        if self._packed is None:
            pods = {uid: {name: getattr(one, name) for name in _FIELDS} for uid, one in self.pods.items()}
            self._packed = pack({"node": self.node, "pods": pods}, {})
        return self._packed

    def restore(self, data: bytes) -> None:
        """Take over what `checkpoint` gave; the name of this node stays, where there is one.

        Raises:
            CheckpointError: It cannot be used; nobody is known then.
        """
        facts, _ = unpack(data)
        try:
            pods = {str(uid): _restored(one) for uid, one in facts["pods"].items()}
            node = str(facts["node"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the pods' names cannot be read: {error}") from error
        self.pods, self.node, self._listed, self._packed = pods, self.node or node, None, None

    def rows(self, uids: Collection[str]) -> Iterator[list[str]]:
        """The lines of a CSV file about these pods, its header first; a pod that is not known has its uid alone."""
        yield list(COLUMNS)
        for uid in sorted(uids):
            known = self.pods.get(uid)
            if known is None:
                yield [uid, self.node, *[""] * (len(COLUMNS) - 2)]
                continue
            cpu = [str(amounts.get(CPU, "")) for amounts in (known.requests, known.limits)]
            memory = [
                f"{amounts[MEMORY] / _MIB:.10g}" if MEMORY in amounts else ""
                for amounts in (known.requests, known.limits)
            ]
            yield [uid, self.node, known.name, known.workload or "", known.class_name, *cpu, *memory]

    def _forget(self, now: float) -> None:
        ended = sorted((one.ended, uid) for uid, one in self.pods.items() if one.ended is not None)
        for place, (when, uid) in enumerate(ended):
            if len(ended) - place > MOST or now - when > KEPT_SECONDS:
                del self.pods[uid]


def _identity(pod: PodRef) -> Identity:
    return Identity(pod.title, CLASS_NAMES[pod.band], pod.workload, dict(pod.requests), dict(pod.limits))


def _restored(one: Mapping[str, Any]) -> Identity:
    found = Identity(**one)
    ended = None if found.ended is None else float(found.ended)
    workload = None if found.workload is None else str(found.workload)
    return Identity(
        str(found.name), str(found.class_name), workload, _amounts(found.requests), _amounts(found.limits), ended
    )


def _amounts(found: Mapping[str, Any]) -> Resources:
    return {str(name): int(amount) for name, amount in found.items()}
