"""Pods that were answered for but not seen bound: each is charged to every node that it may land on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler_plugins.snapshot.pod import PodRequest


@dataclass(frozen=True, slots=True)
class Charge:
    """One pod's charge."""

    pod: PodRequest  # the pod
    names: tuple[str, ...]  # the nodes that carry its estimate
    since: float  # when it was answered for. [unix s]
    counted_from: float  # the same by the clock that charges expire by. [s]


class InFlight:
    """The charges, in the order they were made.

    Args:
        seconds: how long a charge lasts. [s]
        steady: a clock that never jumps; None: the times that are given. [s]
    """

    def __init__(self, seconds: float, steady: Callable[[], float] | None = None) -> None:
        self._seconds = seconds
        self._steady = steady
        self._charges: dict[str, Charge] = {}

    @property
    def charges(self) -> Mapping[str, Charge]:
        """The charges by pod uid."""
        return self._charges

    def put(self, pod: PodRequest, names: Sequence[str], now: float) -> Charge:
        """Charge a pod that is not charged yet."""
        charge = Charge(pod, tuple(names), now, now if self._steady is None else self._steady())
        self._charges[pod.uid] = charge
        return charge

    def pop(self, uid: str) -> Charge | None:
        """Drop a pod's charge and return it; None if it has none."""
        return self._charges.pop(uid, None)

    def refused(self, pod: PodRequest) -> bool:
        """Whether the pod says, later than we answered for it, that it could not be scheduled."""
        # The API keeps whole seconds.
        charge = self._charges.get(pod.uid)
        return charge is not None and pod.refused_at is not None and pod.refused_at >= int(charge.since)

    def expired(self, now: float) -> list[str]:
        """The uids whose charge has lasted its time."""
        return list(self._overdue(now if self._steady is None else self._steady()))

    def _overdue(self, now: float) -> Iterator[str]:
        for uid, charge in self._charges.items():
            # A charge of the time to come was made before the clock was set back: nobody knows its age any more.
            if abs(now - charge.counted_from) < self._seconds:
                return
            yield uid

    def on(self, name: str) -> list[Charge]:
        """The charges that a node carries."""
        return [charge for charge in self._charges.values() if name in charge.names]
