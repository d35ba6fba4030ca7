"""A run as a history for its evaluate: what watches saw, in the API server's order, and the audit log's evictions."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from tests.scheduler_plugins.quota_teams import GPU, QUOTAS, requested
from tools.devcluster import Cluster
from tools.soak.quota_history import Bound, Ended, Event, LeaseTaken, QuotaWritten

PODS: Final = "/api/v1/pods"
_LONGEST_WATCH_SECONDS: Final = 7200
_TOLERANCE_SECONDS: Final = 1.0  # between a time of the audit log and one at which a watch saw the Lease
_OVER: Final = ("Succeeded", "Failed")
_TAKEN: Final = 300

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ObservedWrite:
    """A version of an object."""

    version: int  # of the whole cluster: a later write of any kind has a higher one
    at: float  # when the watch saw it [unix s]
    kind: str  # pod, quota or lease
    object: Json
    gone: bool  # whether this is the end of it


@dataclass
class Record:
    """Watches pods, quotas and one Lease from its start on."""

    cluster: Cluster
    lease: str  # path of a collection that has this Lease alone
    seen: list[ObservedWrite] = field(default_factory=list)  # in the order of arrival
    broken: list[str] = field(default_factory=list)  # watches that ended
    pods: dict[str, Json] = field(default_factory=dict)  # those that there are, by namespace and name
    holder: str = ""  # the last holder of the Lease
    _closed: bool = False

    def start(self) -> None:
        """Begin to watch; returns after the first lists."""
        ready = []
        for kind, path in (("pod", PODS), ("quota", f"{QUOTAS}/elasticquotas"), ("lease", self.lease)):
            ready.append(threading.Event())
            threading.Thread(target=self._watch, args=(kind, path, ready[-1]), daemon=True).start()
        for event in ready:
            event.wait(60)

    def close(self) -> None:
        """Watches that end from now on are not broken."""
        self._closed = True

    def _watch(self, kind: str, path: str, ready: threading.Event) -> None:
        why = "it ended"
        try:
            for what, result in self.cluster.api.watch(path, _LONGEST_WATCH_SECONDS):
                for obj in result["items"] if what == "LISTED" else [result]:
                    self._take(kind, obj, gone=what == "DELETED")
                if what == "LISTED":
                    ready.set()
        except OSError as error:
            why = str(error)
        if not self._closed:
            self.broken.append(f"the watch of {path}: {why}")

    def _take(self, kind: str, obj: Json, *, gone: bool) -> None:
        self.seen.append(ObservedWrite(int(obj["metadata"]["resourceVersion"]), time.time(), kind, obj, gone))
        if kind == "lease":
            self.holder = _holder(obj) or self.holder
        elif kind == "pod" and gone:
            self.pods.pop(_key(obj), None)
        elif kind == "pod":
            self.pods[_key(obj)] = obj


def _key(obj: Json) -> str:
    """Namespace and name: no name is used twice in a run."""
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _holder(lease: Json) -> str:
    """Host name of the holder of a Lease; empty: it has none."""
    return str((lease.get("spec") or {}).get("holderIdentity") or "").partition("_")[0]


def history(seen: Iterable[ObservedWrite]) -> Iterator[Event]:
    """Yield the events in the API server's order."""
    nodes, over, holder = dict[str, str](), set[str](), ""
    for record in sorted(seen, key=lambda entry: entry.version):
        if record.kind == "quota":
            most = (record.object.get("spec") or {}).get("max") or {}
            bounds = {name: int(amount) for name, amount in most.items() if name == GPU}
            yield QuotaWritten(record.at, record.object["metadata"]["namespace"], None if record.gone else bounds)
        elif record.kind == "lease":
            # Given back, it is its former holder's until another takes it: the former may not have noticed.
            if (taken := _holder(record.object)) and taken != holder:
                holder = taken
                yield LeaseTaken(record.at, taken)
        else:
            pod, name = record.object, _key(record.object)
            node = str(pod["spec"].get("nodeName") or "")
            if node != nodes.get(name, ""):
                nodes[name] = node
                created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()
                yield Bound(record.at, name, pod["metadata"]["namespace"], {GPU: requested(pod)}, created)
            if (record.gone or pod["status"].get("phase") in _OVER) and name not in over:
                over.add(name)
                yield Ended(record.at, name)


def evictions(audited: Iterable[Json], events: Sequence[Event], writers: Sequence[str]) -> tuple[int, list[str]]:
    """Return how many evictions the writers made, and their faults: twice, or without the Lease."""
    terms = [(event.at, event.holder) for event in events if isinstance(event, LeaseTaken)]
    victims: Counter[str] = Counter()
    wrong = []
    for line in audited:
        about, by = line.get("objectRef") or {}, str(line["user"]["username"])
        if by not in writers or about.get("subresource") != "eviction":
            continue
        if line.get("responseStatus", {}).get("code", 0) >= _TAKEN:
            continue
        victim, at = f"{about['namespace']}/{about['name']}", datetime.fromisoformat(line["stageTimestamp"]).timestamp()
        victims[victim] += 1
        ends = [*(since for since, _ in terms[1:]), float("inf")]
        if not any(
            holder == by and since - _TOLERANCE_SECONDS <= at <= end + _TOLERANCE_SECONDS
            for (since, holder), end in zip(terms, ends, strict=True)
        ):
            wrong.append(f"{by} evicted {victim} and did not hold the Lease")
    return victims.total(), wrong + [
        f"{victim} was evicted {count} times" for victim, count in victims.items() if count > 1
    ]
