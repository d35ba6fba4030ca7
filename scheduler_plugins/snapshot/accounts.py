"""Sums over the pods of each node, for plugins: for example their requests."""

from collections.abc import Callable, Hashable, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from headroom.runtime.bounded_cache import BoundedCache
from scheduler_plugins.snapshot.units import LARGEST, Vector

_REMEMBERED_BYTES: Final = 16 * 2**20

_Read = TypeVar("_Read")


@runtime_checkable
class PodAccount(Protocol):
    """A plugin with numbers of every pod, summed over the pods of each node."""

    def width(self) -> int:
        """Return how many numbers there are of a pod."""

    def amounts(self, pod: Mapping[str, Any]) -> Vector:
        """The numbers of one pod, from its Kubernetes JSON; integers that can be added.

        Called once for pods that differ in nothing but name, uid, node, times and status (see `TemplateKeys`).

        None is beyond 2^53 on either side, so that sums over hundreds of pods stay in 64 bits.

        Raises QuantityError: a request or limit is not a quantity.
        """


@runtime_checkable
class PodFacts(Protocol):
    """A plugin that reads more of a pod than numbers."""

    def facts(self, pod: Mapping[str, Any]) -> Hashable:
        """Return the pod's facts for the plugin, from its JSON; `PodRequest.facts` has them by the plugin's name.

        Raises ValueError: the pod cannot be understood.
        """

    def alike(self, facts: Any) -> Hashable:  # noqa: ANN401 - what `facts` made
        """The part of it that is the same for pods that are evaluated alike."""


class Accounts:
    """The accounts of a profile's plugins."""

    def __init__(self, plugins: Mapping[str, object]) -> None:
        self._plugins = {name: plugin for name, plugin in plugins.items() if isinstance(plugin, PodAccount)}
        self._curious = {name: plugin for name, plugin in plugins.items() if isinstance(plugin, PodFacts)}
        slices, start = {}, 0
        for name, plugin in self._plugins.items():
            slices[name] = slice(start, start + plugin.width())
            start += plugin.width()
        self.width: Final = start  # how many numbers there are of a pod, over all plugins
        self.slices: Final[Mapping[str, slice]] = MappingProxyType(slices)
        """Which of them belong to a plugin, by its name."""
        # Pods of one workload share one object, so that 150,000 pods cost little.
        self._shared: BoundedCache[tuple[Vector, ...], Mapping[str, Vector]] = BoundedCache(
            self._split, _REMEMBERED_BYTES
        )

    def read(self, pod: Mapping[str, Any]) -> Mapping[str, Vector]:
        """The numbers of one pod by plugin name.

        Raises:
            QuantityError: a request or limit is not a quantity.
            ValueError: a plugin fails, returns another number of them than declared, or too large ones.
        """
        return self._shared(tuple([_guarded(name, plugin.amounts, pod) for name, plugin in self._plugins.items()]))

    def facts(self, pod: Mapping[str, Any]) -> Mapping[str, Any]:
        """The further facts of a pending pod for plugins, by their names.

        Raises ValueError: a plugin cannot read it.
        """
        return {name: _guarded(name, plugin.facts, pod) for name, plugin in self._curious.items()}

    def alike(self, facts: Mapping[str, Any]) -> tuple[Hashable, ...]:
        """The part of such facts that is the same for pods that are evaluated alike."""
        return tuple(plugin.alike(facts[name]) for name, plugin in self._curious.items() if name in facts)

    def flat(self, amounts: Mapping[str, Vector]) -> Vector:
        """The numbers of all plugins in the order of `slices`."""
        return tuple(chain.from_iterable(map(amounts.__getitem__, self._plugins)))

    def parts(self, flat: Vector) -> Mapping[str, Vector]:
        return {name: flat[part] for name, part in self.slices.items()}

    def _split(self, vectors: tuple[Vector, ...]) -> Mapping[str, Vector]:
        for (name, plugin), vector in zip(self._plugins.items(), vectors, strict=True):
            if len(vector) != plugin.width():
                raise ValueError(f"{name} gives {len(vector)} numbers of a pod, not {plugin.width()}")
            if abs(largest := max(vector, key=abs, default=0)) > LARGEST:
                raise ValueError(f"{name} gives {largest} of a pod; sums over a node stay in 64 bits up to {LARGEST}")
        return MappingProxyType(dict(zip(self._plugins, vectors, strict=True)))


def _guarded(name: str, read: Callable[[Mapping[str, Any]], _Read], pod: Mapping[str, Any]) -> _Read:
    try:
        return read(pod)
    except ValueError:
        raise
    except Exception as error:  # any plugin may fail, and one pod must not end the watch of all others
        raise ValueError(f"{name} cannot read it: {type(error).__name__}: {error}") from error
