"""The owners of the series in the database: name, class, workload, requests and limits of each pod, kept with them.

The export for a backtest needs them, and after a pod has ended they are known nowhere else.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from agent.numerics.packing import CheckpointError, pack, unpack
from agent.pods import PodRef, Resources
from agent.samples import CPU, MEMORY
from agent.series_index import CLASS_NAMES

NAME: Final = "identities"  # name of the checkpoint, and with a number behind it of those of pods that ended before
KEPT_SECONDS: Final = 31 * 86400.0
"""Time for which an ended pod is kept: as long as the store keeps its samples by default. [s]"""
PACKED: Final = 250
"""So many pods that ended are packed together, the first of twice as many: nothing is kept in memory but bytes."""
MOST: Final = 400  # so many packs are kept; the oldest is forgotten first
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
"""The columns of `PodMetadataStore.rows`."""
_MIB: Final = float(1 << 20)
_PACK: Final = f"{NAME}/"
_NUMBERED: Final = re.compile(rf"{_PACK}[0-9]{{1,12}}")


@dataclass(frozen=True, slots=True)
class PodMetadata:
    """A pod."""

    name: str  # namespace/name, or the uid where the pod was found in the cgroup tree alone
    class_name: str  # the class that it counts to: prod, mid, batch or free
    workload: str | None  # its workload, which shares its history
    requests: Resources  # its requests. [milli-cores, bytes]
    limits: Resources  # its limits. [milli-cores, bytes]
    ended: float | None = None  # since when it is no longer listed; None while it is. [s of the index's clock]


_FIELDS: Final = tuple(field.name for field in fields(PodMetadata))


class PodMetadataStore:
    """The pods of this node, those that ended lately included.

    Its times are of the index's clock, which takes no part in jumps of the machine's: one makes no name be forgotten.
    """

    def __init__(self, node: str = "") -> None:
        self.node = node  # name of the node, as of the last checkpoint where it was restored
        self.pods: dict[str, PodMetadata] = {}  # by uid
        self._listed: tuple[PodRef, ...] | None = None
        self._packed: bytes | None = None
        self._packs: dict[int, tuple[float, bytes]] = {}  # by number, rising: when its last pod ended, and its content

    def update(self, now: float, pods: Sequence[PodRef]) -> None:
        """Take in which pods are here now. The time is of the index's clock. [s]"""
        listed = tuple(pods)
        if listed == self._listed:
            return
        self._listed, self._packed = listed, None
        present = {pod.uid: pod for pod in listed}
        for uid, known in list(self.pods.items()):
            if uid not in present and known.ended is None:
                self.pods[uid] = replace(known, ended=now)
        self.pods.update((uid, _metadata(pod)) for uid, pod in present.items())
        self._forget(now)

    def checkpoint(self) -> dict[str, bytes]:
        """All pods as bytes by name: the same objects as before where nothing changed."""
        if self._packed is None:
            self._packed = self._bytes_of(self.pods)
        return {NAME: self._packed, **{f"{_PACK}{number}": data for number, (_, data) in self._packs.items()}}

    def all_pods(self) -> dict[str, PodMetadata]:
        """All remembered pods, by uid, those that ended long ago included."""
        result: dict[str, PodMetadata] = {}
        for _, data in self._packs.values():
            result |= _unpacked(data)[0]
        return result | self.pods

    def restore(self, content: Mapping[str, bytes]) -> None:
        """Take over what `checkpoint` gave; the name of this node stays, where there is one. Others are left alone.

        Raises CheckpointError: it cannot be used; no pod is known then.
        """
        if NAME not in content:
            return
        pods, node = _unpacked(content[NAME])
        numbers = sorted(int(name.removeprefix(_PACK)) for name in content if _NUMBERED.fullmatch(name))
        packs = {number: content[f"{_PACK}{number}"] for number in numbers}
        self._packs = {number: (_last(_unpacked(data)[0]), data) for number, data in packs.items()}
        self.pods, self.node, self._listed, self._packed = pods, self.node or node, None, None

    def rows(self, uids: Collection[str]) -> Iterator[list[str]]:
        """The lines of a CSV file about these pods, its header first; a pod that is not known has its uid alone."""
        yield list(COLUMNS)
        all_pods = self.all_pods()
        for uid in sorted(uids):
            pod = all_pods.get(uid)
            if pod is None:
                yield [uid, self.node, *[""] * (len(COLUMNS) - 2)]
                continue
            cpu = [str(amounts.get(CPU, "")) for amounts in (pod.requests, pod.limits)]
            memory = [
                f"{amounts[MEMORY] / _MIB:.10g}" if MEMORY in amounts else "" for amounts in (pod.requests, pod.limits)
            ]
            yield [uid, self.node, pod.name, pod.workload or "", pod.class_name, *cpu, *memory]

    def _forget(self, now: float) -> None:
        for uid, one in self.pods.items():
            if one.ended is not None and one.ended > now:  # by another clock: an older version's, or one that was reset
                self.pods[uid] = replace(one, ended=now)
        self._packs = {number: (min(last, now), data) for number, (last, data) in self._packs.items()}
        ended = sorted((one.ended, uid) for uid, one in self.pods.items() if one.ended is not None)
        while len(ended) >= 2 * PACKED:
            first = {uid: self.pods.pop(uid) for _, uid in ended[:PACKED]}
            self._packs[max(self._packs, default=0) + 1] = _last(first), self._bytes_of(first)
            del ended[:PACKED]
        for when, uid in ended:
            if now - when > KEPT_SECONDS:
                del self.pods[uid]
        packs = list(self._packs.items())[-MOST:]
        self._packs = {number: (last, data) for number, (last, data) in packs if now - last <= KEPT_SECONDS}

    def _bytes_of(self, pods: Mapping[str, PodMetadata]) -> bytes:
        content = {uid: {name: getattr(one, name) for name in _FIELDS} for uid, one in pods.items()}
        return pack({"node": self.node, "pods": content}, {})


def _unpacked(data: bytes) -> tuple[dict[str, PodMetadata], str]:
    """Pods by uid, and the name of the node."""
    facts, _ = unpack(data)
    try:
        return {str(uid): _restored(one) for uid, one in facts["pods"].items()}, str(facts["node"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the pods' names cannot be read: {error}") from error


def _last(pods: Mapping[str, PodMetadata]) -> float:
    """Return when the last of some pods ended. [s of the index's clock]"""
    return max((pod.ended or 0.0 for pod in pods.values()), default=0.0)


def _metadata(pod: PodRef) -> PodMetadata:
    return PodMetadata(pod.title, CLASS_NAMES[pod.band], pod.workload, dict(pod.requests), dict(pod.limits))


def _restored(one: Mapping[str, Any]) -> PodMetadata:
    result = PodMetadata(**one)
    ended = None if result.ended is None else float(result.ended)
    workload = None if result.workload is None else str(result.workload)
    return PodMetadata(
        str(result.name), str(result.class_name), workload, _amounts(result.requests), _amounts(result.limits), ended
    )


def _amounts(found: Mapping[str, Any]) -> Resources:
    return {str(name): int(amount) for name, amount in found.items()}
