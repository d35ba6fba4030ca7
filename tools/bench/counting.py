"""As much of an API server as one NodeMetric needs: takes merge patches, and counts what goes over the wire."""

import json
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

Json = dict[str, Any]


@dataclass(slots=True)
class CountingServer:
    """A NodeMetric, with the methods of a session with an API server."""

    now: float = 0.0  # the simulated time [seconds since 1970]
    bodies: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Bytes of each request's body by kind: full, fast, other."""
    answers: int = 0  # bytes of all answers' bodies
    reads: int = 0  # requests that change nothing
    took: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Real time from `began` to each write: how long a report takes to make. [s]"""
    began: float = 0.0  # when the publisher was woken [s]
    _object: Json = field(
        default_factory=lambda: {"metadata": {"name": "node", "uid": "1", "generation": 1}, "spec": {}}
    )

    def reset(self) -> None:
        """Count from now on; the object stays."""
        self.bodies.clear()
        self.took.clear()
        self.answers = self.reads = 0

    async def get(self, _path: str) -> Json:
        """The NodeMetric."""
        self.reads += 1
        return self._answer(self._object)

    async def metadata(self, _path: str) -> Json:
        """The NodeMetric's metadata."""
        self.reads += 1
        return self._answer(dict(self._object["metadata"]))

    async def patch(self, _path: str, body: Json, **_: object) -> Json:
        """Take a merge patch of the status."""
        status = body.get("status", {})
        kind = "full" if "nodeMetric" in status or "updateTime" in status else "fast"
        self.bodies[kind].append(len(json.dumps(body)))
        self.took[kind].append(time.perf_counter() - self.began)
        self._object = {**self._object, "status": merged(self._object.get("status", {}), status)}
        return self._answer(self._object)

    async def post(self, _path: str, body: Json, **_: object) -> Json:
        """Take an event."""
        self.bodies["other"].append(len(json.dumps(body)))
        return self._answer(body)

    def _answer(self, content: Json) -> Json:
        text = json.dumps(content)
        self.answers += len(text)
        return cast("Json", json.loads(text))


def merged(before: Mapping[str, Any], patch: Mapping[str, Any]) -> Json:
    """Apply a merge patch to an object (RFC 7386)."""
    result = dict(before)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            old = result.get(key)
            result[key] = merged(old if isinstance(old, Mapping) else {}, value)
        else:
            result[key] = value
    return result
