"""When pods were bound, and what the processes spent meanwhile, as a watch of nothing but metadata sees it."""

import threading
import time
from collections.abc import Iterator, Mapping

from tools.bench.costs import CpuUsage
from tools.devcluster.api import ApiClient, ApiError

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class Binds:
    """Watches a namespace's pods until so many are bound.

    Args:
        api: the API server.
        namespace: where the pods are; none of them is bound.
        wanted: how many have to be bound.
        patience_seconds: when to give up. [s]
    """

    def __init__(self, api: ApiClient, namespace: str, wanted: int, patience_seconds: int) -> None:
        self._path = f"/api/v1/namespaces/{namespace}/pods?fieldSelector=spec.nodeName!="
        self._api = api
        self._changes = api.watch(self._path, patience_seconds, METADATA)
        next(self._changes)  # what happens from here on is seen, whenever it is looked at
        self._deadline = time.monotonic() + patience_seconds
        self._wanted, self._patience = wanted, patience_seconds
        self._seen: set[str] = set()
        self._times: list[float] = []
        self._first: CpuUsage | None = None
        self._last: CpuUsage | None = None

    def follow(self, processes: Mapping[str, int]) -> None:
        """Look, in a thread; the CPU time of these processes counts: pid by name."""
        self._thread = threading.Thread(target=self._follow, args=(processes,), daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait for a while; whether all are bound."""
        self._thread.join(seconds)
        return self._last is not None

    @property
    def bound(self) -> int:
        """How many are bound."""
        return len(self._times)

    @property
    def per_second(self) -> float:
        """How many were bound per second from the first to the last."""
        return (len(self._times) - 1) / max(self._times[-1] - self._times[0], 1e-9)

    def spent(self) -> dict[str, float]:
        """CPU time per bound pod of each process, and "other", in milliseconds; "other" is per second of a core."""
        if self._first is None or self._last is None:
            return {}
        spent = self._last.since(self._first)
        other = spent.pop("other") / max(self._last.at - self._first.at, 1e-9)
        return {**{name: seconds / len(self._times) * 1000 for name, seconds in spent.items()}, "other": other}

    def _follow(self, processes: Mapping[str, int]) -> None:
        for name in self._names():
            if name in self._seen:
                continue
            self._seen.add(name)
            self._times.append(time.monotonic())
            if len(self._times) == 1:
                self._first = CpuUsage.of(processes)
            if len(self._times) >= self._wanted:
                self._last = CpuUsage.of(processes)
                return

    def _names(self) -> Iterator[str]:
        """Bound pods, some of them more than once. An API server ends a watch that does not keep up."""
        changes = self._changes
        while time.monotonic() < self._deadline:
            try:
                for kind, found in changes:
                    items = found["items"] if kind == "LISTED" else [found] if kind == "ADDED" else []
                    yield from (item["metadata"]["name"] for item in items)
            except (OSError, ApiError):
                time.sleep(0.1)
            changes = self._api.watch(self._path, self._patience, METADATA)
