"""Pods that a scheduler binds, as an API server's watch shows them, and the CPU time of processes meanwhile."""

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Final

from tools.bench.costs import CpuUsage
from tools.devcluster.api import ApiClient, ApiError

PATIENCE_SECONDS: Final = 180
PATH: Final = "/api/v1/namespaces/default/pods"
_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class Binds:
    """Watches nothing but metadata of pods until so many are bound; none is when it begins."""

    def __init__(self, api: ApiClient, wanted: int) -> None:
        self._api, self._path, self._wanted = api, f"{PATH}?fieldSelector=spec.nodeName!=", wanted
        self._changes = api.watch(self._path, PATIENCE_SECONDS, _METADATA)
        next(self._changes)  # later events are recorded until they are read
        self._deadline = time.monotonic() + PATIENCE_SECONDS
        self._times: dict[str, float] = {}  # when each pod was seen bound [s]
        self._usages: list[CpuUsage] = []  # at the first and at the last

    def follow(self, processes: Mapping[str, int]) -> None:
        """Watch in a thread; the CPU time of these processes counts: pid by name."""
        self._thread = threading.Thread(target=self._follow, args=(processes,), daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait for a while; return whether all are bound."""
        self._thread.join(seconds)
        return len(self._usages) > 1

    @property
    def per_second(self) -> float:
        """Return how many were bound per second from the first to the last."""
        times = list(self._times.values())
        return (len(times) - 1) / max(times[-1] - times[0], 1e-9)

    def spent(self) -> dict[str, float]:
        """Return CPU time per bound pod of each process [ms], and that of "other" as a share of a core."""
        first, last = self._usages
        spent = last.since(first)
        other = spent.pop("other") / max(last.at - first.at, 1e-9)
        return {**{name: seconds / len(self._times) * 1000 for name, seconds in spent.items()}, "other": other}

    def _follow(self, processes: Mapping[str, int]) -> None:
        for name in self._names():
            if name not in self._times:
                self._times[name] = time.monotonic()
                if len(self._times) in (1, self._wanted):
                    self._usages.append(CpuUsage.of(processes))
                if len(self._times) == self._wanted:
                    return

    def _names(self) -> Iterator[str]:
        """Yield bound pods, some of them more than once. An API server ends a watch that does not keep up."""
        changes = self._changes
        while time.monotonic() < self._deadline:
            try:
                for kind, result in changes:
                    listed = result["items"] if kind == "LISTED" else [result] if kind == "ADDED" else []
                    yield from (item["metadata"]["name"] for item in listed)
            except (OSError, ApiError):
                time.sleep(0.1)
            changes = self._api.watch(self._path, PATIENCE_SECONDS, _METADATA)
