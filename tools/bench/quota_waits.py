"""When pods were first refused and when they were bound, as a watch of pods sees it."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tools.devcluster.api import ApiClient, ApiError
from tools.devcluster.commands import DevClusterError

Json = dict[str, Any]
PATIENCE_SECONDS = 120.0


@dataclass
class Waits:
    """Follows the pods of a namespace.

    Args:
        api: the API server.
        namespace: where they are.
    """

    api: ApiClient
    namespace: str
    refused: dict[str, float] = field(default_factory=dict)
    """When a pod was first seen to be unschedulable, by name. [s of a clock that never jumps]"""
    bound: dict[str, float] = field(default_factory=dict)  # when it was first seen bound [s, as above]
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        changes = self.api.watch(f"/api/v1/namespaces/{self.namespace}/pods")
        next(changes)  # what happens from here on is seen
        threading.Thread(target=self._follow, args=(changes,), daemon=True).start()

    def wait(self, names: Sequence[str], seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until all of these are bound.

        Raises:
            DevClusterError: they are not in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self.bound.keys() >= set(names), seconds):
                late = sorted(set(names) - self.bound.keys())
                raise DevClusterError(f"{len(late)} of {len(names)} pods were not bound in {seconds:.0f} s: {late[:3]}")

    def taken(self, names: Sequence[str]) -> list[float]:
        """From refusal to binding, of pods that were refused at all. [s]"""
        return [self.bound[name] - self.refused[name] for name in names if name in self.refused]

    def _follow(self, changes: Any) -> None:  # noqa: ANN401 - an iterator of changes
        try:
            for _, pod in changes:
                self._take(pod, time.monotonic())
        except (OSError, ApiError):
            return  # whoever waits is told that nothing comes any more

    def _take(self, pod: Json, now: float) -> None:
        name = pod["metadata"]["name"]
        with self._changed:
            if pod["spec"].get("nodeName"):
                self.bound.setdefault(name, now)
            elif any(each.get("reason") == "Unschedulable" for each in pod["status"].get("conditions") or ()):
                self.refused.setdefault(name, now)
            self._changed.notify_all()
