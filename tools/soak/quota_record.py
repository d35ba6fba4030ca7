"""A run as a history for its judge: what watches saw, in the API server's order, and who did it, by the audit log."""

import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from crds.names import ANNOTATION_RECLAIM_HOLD
from scheduler_plugins.quota.hold import Hold
from tests.scheduler_plugins.quota_teams import GPU, QUOTAS, requested
from tools.devcluster import Cluster
from tools.soak.quota_history import Bound, Ended, Event, Evicted, HoldWritten, LeaseTaken, QuotaWritten

PODS: Final = "/api/v1/pods"
_LONGEST_WATCH_SECONDS: Final = 7200
_OVER: Final = ("Succeeded", "Failed")
_TAKEN: Final = 300

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """A version of an object."""

    version: int  # of the whole cluster: what was written later has a higher one, whatever kind it is
    at: float  # when it was heard of [unix s]
    kind: str  # pod, quota or lease
    object: Json  # all of it
    gone: bool  # whether this is the end of it


@dataclass
class Record:
    """Watches pods, quotas and one Lease from its start on."""

    cluster: Cluster  # whose
    lease: str  # path of a collection that has this Lease alone
    seen: list[Seen] = field(default_factory=list)  # in the order of arrival
    broken: list[str] = field(default_factory=list)  # watches that ended
    pods: dict[str, Json] = field(default_factory=dict)  # those that there are, by `key`
    holder: str = ""  # who took the Lease last
    _closed: bool = False

    def start(self) -> None:
        """Begin to watch; returns when what is there already is known."""
        ready = []
        for kind, path in (("pod", PODS), ("quota", f"{QUOTAS}/elasticquotas"), ("lease", self.lease)):
            ready.append(threading.Event())
            threading.Thread(target=self._watch, args=(kind, path, ready[-1]), daemon=True).start()
        for each in ready:
            each.wait(60)

    def close(self) -> None:
        """Watches that end from now on are not broken."""
        self._closed = True

    def _watch(self, kind: str, path: str, ready: threading.Event) -> None:
        why = "it ended"
        try:
            for what, found in self.cluster.api.watch(path, _LONGEST_WATCH_SECONDS):
                listed = what == "LISTED"
                for each in found["items"] if listed else [found]:
                    self._take(kind, each, gone=what == "DELETED")
                if listed:
                    ready.set()
        except OSError as error:
            why = str(error)
        if not self._closed:
            self.broken.append(f"the watch of {path}: {why}")

    def _take(self, kind: str, found: Json, *, gone: bool) -> None:
        self.seen.append(Seen(int(found["metadata"]["resourceVersion"]), time.time(), kind, found, gone))
        if kind == "pod" and gone:
            self.pods.pop(key(found), None)
        elif kind == "pod":
            self.pods[key(found)] = found
        elif kind == "lease":
            self.holder = holder(found) or self.holder


def key(found: Json) -> str:
    """Namespace and name: no name is used twice in a run."""
    return f"{found['metadata']['namespace']}/{found['metadata']['name']}"


def holder(lease: Json) -> str:
    """Host name of who holds a Lease; empty: nobody."""
    return str((lease.get("spec") or {}).get("holderIdentity") or "").partition("_")[0]


def history(seen: Iterable[Seen], audited: Iterable[Json], writers: Sequence[str]) -> list[Event]:
    """What there is to be judged, in the API server's order. Pods are named by `key`.

    Args:
        seen: versions of objects.
        audited: lines of the audit log, with bodies for what the writers wrote.
        writers: users of the audit log whose writes are judged; the holders of the Lease are named as they are, up to
            an underscore.
    """
    audit = _Audit([line for line in audited if line["user"]["username"] in writers])
    told = _Story(audit)
    ordered = sorted(seen, key=lambda one: one.version)
    events = [(one.version, event) for one in ordered for event in told.events(one)]
    # An eviction is in force with the version that says so. Of a second one nothing is seen: it goes by its time.
    heard = sorted((one.at, one.version) for one in ordered)
    for at, by, victim in audit.evictions:
        first = told.leaving.pop(victim, None)
        before = bisect_right(heard, (at, 1 << 62))
        version = first or (max(each for _, each in heard[:before]) if before else 0)
        events.append((version, Evicted(at, by, victim, "")))
    return _with_claimants(event for _, event in sorted(events, key=lambda each: each[0]))


def _with_claimants(events: Iterable[Event]) -> list[Event]:
    """Evictions with the pod for which they are: it has the last hold that names the victim."""
    found: list[Event] = []
    holds: dict[str, HoldWritten] = {}
    for event in events:
        if isinstance(event, HoldWritten):
            holds.pop(event.claimant, None)
            holds[event.claimant] = event
        if isinstance(event, Evicted):
            named = [each.claimant for each in holds.values() if event.victim in each.victims]
            found.append(Evicted(event.at, event.by, event.victim, named[-1] if named else "nobody"))
        else:
            found.append(event)
    return found


class _Audit:
    """Who wrote what, of the lines of the writers."""

    def __init__(self, lines: Sequence[Json]) -> None:
        self.evictions: list[tuple[float, str, str]] = []  # when, by whom, and which pod; in order
        self._versions: dict[int, str] = {}
        self._texts: dict[tuple[str, str | None], str] = {}
        for line in lines:
            about, by = line.get("objectRef") or {}, str(line["user"]["username"])
            if about.get("resource") != "pods" or not about.get("name"):  # else a list, or a watch
                continue
            pod = f"{about['namespace']}/{about['name']}"
            sent, answered = line.get("requestObject") or {}, line.get("responseObject") or {}
            if about.get("subresource") == "eviction":
                if line.get("responseStatus", {}).get("code", 0) < _TAKEN:
                    self.evictions.append((_unix(line["stageTimestamp"]), by, pod))
                continue
            annotations = sent.get("metadata", {}).get("annotations") or {}
            if ANNOTATION_RECLAIM_HOLD in annotations:
                self._texts[(pod, annotations[ANNOTATION_RECLAIM_HOLD])] = by
            if version := answered.get("metadata", {}).get("resourceVersion"):
                self._versions[int(version)] = by

    def writer(self, version: int, pod: str, text: str | None) -> str:
        """Who wrote a hold. Whoever was cut off before the answer is known by what was sent."""
        return self._versions.get(version) or self._texts.get((pod, text)) or "somebody else"


class _Story:
    """What each version of an object says that the one before did not."""

    def __init__(self, audit: _Audit) -> None:
        self._audit = audit
        self._nodes: dict[str, str] = {}
        self._over: set[str] = set()
        self._holds: dict[str, frozenset[str]] = {}
        self._names: dict[str, str] = {}
        self._holder = ""
        self.leaving: dict[str, int] = {}  # with which version a pod has to leave

    def events(self, one: Seen) -> list[Event]:
        """Of a version."""
        if one.kind == "quota":
            most = (one.object.get("spec") or {}).get("max") or {}
            found = {name: int(amount) for name, amount in most.items() if name == GPU}
            return [QuotaWritten(one.at, one.object["metadata"]["namespace"], None if one.gone else found)]
        return self._lease(one) if one.kind == "lease" else self._pod(one)

    def _lease(self, one: Seen) -> list[Event]:
        found = holder(one.object)
        # Given back, it is its former holder's until somebody else takes it: he may not have noticed.
        if not found or found == self._holder:
            return []
        self._holder = found
        return [LeaseTaken(one.at, found)]

    def _pod(self, one: Seen) -> list[Event]:
        pod, name, events = one.object, key(one.object), list[Event]()
        self._names[pod["metadata"]["uid"]] = name
        if pod["metadata"].get("deletionTimestamp"):
            self.leaving.setdefault(name, one.version)
        hold = Hold.of_pod(pod)
        victims = frozenset(self._names.get(uid, uid) for uid in hold.victims) if hold else frozenset[str]()
        if victims != self._holds.get(name, frozenset()) and not one.gone:
            self._holds[name] = victims
            text = (pod["metadata"].get("annotations") or {}).get(ANNOTATION_RECLAIM_HOLD)
            events.append(HoldWritten(one.at, self._audit.writer(one.version, name, text), name, victims))
        node = str(pod["spec"].get("nodeName") or "")
        if node != self._nodes.get(name, ""):
            self._nodes[name] = node
            created = _unix(pod["metadata"]["creationTimestamp"])
            events.append(Bound(one.at, name, pod["metadata"]["namespace"], {GPU: requested(pod)}, created))
        if (one.gone or pod["status"].get("phase") in _OVER) and name not in self._over:
            self._over.add(name)
            events.append(Ended(one.at, name))
        return events


def _unix(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
