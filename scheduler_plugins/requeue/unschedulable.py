"""Who waits: pods that were refused on every node that they could have had, until they are bound or gone."""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from crds import names
from scheduler_plugins.framework.verdict import Verdict
from scheduler_plugins.requeue.groups import Entry, Group, GroupKey, group_key
from scheduler_plugins.requeue.node_sets import NodeNumbers
from scheduler_plugins.snapshot.arrays import Snapshot
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.tombstones import Tombstones

_UNANSWERED_SECONDS: Final = 30.0
_LISTING_SECONDS: Final = 60.0
"""Reading a list of 150,000 pods takes no longer; meanwhile further pods may be created, and refused."""

Forgotten = Callable[[Entry, bool], None]
"""Is told of a pod that waits no longer, and whether that is because it has a node now."""


def _untold(_entry: Entry, _placed: bool) -> None:  # noqa: FBT001 - a Forgotten
    pass


class UnschedulablePods:
    """The pods that wait. Fed by refusals and by the watch of pods; both are quick.

    A pod that another replica patches is let go: that replica's kube-scheduler is at work. So is a pod that does not
    come back after it was woken: either kube-scheduler's own filters refuse it now, and kube-scheduler knows when to
    try again, or another kube-scheduler leads, which asks its own extender about every pending pod.

    Args:
        most: how many pods are remembered.
        nodes: how many nodes there are.
        clock: a clock that never jumps. [s]
    """

    def __init__(self, most: int, nodes: Callable[[], int], clock: Callable[[], float]) -> None:
        self._most = most
        self._nodes = nodes
        self._clock = clock
        self._entries: dict[str, Entry] = {}
        self._groups: dict[GroupKey, Group] = {}
        self._keys: dict[Group, GroupKey] = {}
        self.numbers = NodeNumbers()
        """How sets of nodes are written."""
        self.on_forgotten: Forgotten = _untold
        """Is told of every pod that waits no longer."""
        self.adopt: Callable[[Mapping[str, Any]], PodRequest | None] = lambda _: None
        """Reads a pod of the first list that an earlier run of ours refused; None for all others."""
        self.read: Callable[[Mapping[str, Any]], PodRequest | None] = lambda _: None
        """Reads a waiting pod that has changed; None: what plugins see in it is the same."""
        self._listed = False
        self._tombstones = Tombstones()
        self.overflowed = 0
        """How many pods were refused and not remembered, as there were too many."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The pods by uid."""
        return self._entries

    @property
    def groups(self) -> Sequence[Group]:
        """The pods by what they have in common."""
        return list(self._groups.values())

    # What the extender tells

    def refused(self, pod: PodRequest, json_pod: Mapping[str, Any], node_names: Sequence[str], _: Verdict) -> None:
        """Note that a pod was refused on all these nodes, which are all that fit it otherwise, or a part of them."""
        if pod.uid in self._tombstones:
            return
        now, entry = self._clock(), self._entries.get(pod.uid)
        generation = int((json_pod.get("metadata") or {}).get("generation") or 0)
        if entry is not None and entry.generation == generation != 0:
            self._note(entry, node_names, now)
            return
        key = group_key(pod, json_pod)
        if entry is None:
            if len(self._entries) >= self._most:
                self.overflowed += 1
                return
            entry = Entry(pod.uid, pod.key, pod.created, now, self._group(key, pod), retried=_retried(json_pod))
            self._join(entry)
        elif self._keys[entry.group] != key:  # its constraints were changed meanwhile
            self._leave(entry)
            entry.group = self._group(key, pod)
            self._join(entry)
        entry.generation = generation
        self._note(entry, node_names, now)

    def _note(self, entry: Entry, node_names: Sequence[str], now: float) -> None:
        entry.refused_again(now)
        nodes = self.numbers.bits(node_names)
        entry.group.asked_about(nodes, len(node_names), self._nodes())

    def _group(self, key: GroupKey, pod: PodRequest) -> Group:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(pod)
            self._keys[group] = key
        return group

    def _join(self, entry: Entry) -> None:
        self._entries[entry.uid] = entry.group.entries[entry.uid] = entry

    def _leave(self, entry: Entry) -> None:
        del self._entries[entry.uid], entry.group.entries[entry.uid]
        if not entry.group.entries:
            del self._groups[self._keys.pop(entry.group)]

    # What the watch of pods tells

    def put_pod(self, pod: Mapping[str, Any]) -> None:
        """Look at a pod that changed: one that is bound waits no longer, nor does one that another replica wakes."""
        entry = self._entries.get(str(pod["metadata"].get("uid")))
        if entry is None:
            if not self._listed and (request := self.adopt(pod)) is not None:
                self._adopt(request, pod)
            return
        if pod.get("spec", {}).get("nodeName"):
            self.forget(entry, placed=True)
        elif _retried(pod) not in ("", entry.retried):
            self.forget(entry)
        else:
            self._look_at(entry, pod)

    def _look_at(self, entry: Entry, json_pod: Mapping[str, Any]) -> None:
        """Judge a pod by itself, or with others, once plugins see something else in it: room is held for it, say."""
        pod, former = self.read(json_pod), entry.group
        if pod is None or pod.alike == former.pod.alike:
            return
        self._leave(entry)
        entry.group = group = self._group(group_key(pod, json_pod), pod)
        self._join(entry)
        group.nodes |= former.nodes
        group.open_ended = group.open_ended or former.open_ended
        group.pending |= group.fitting(self.numbers.all)

    def _adopt(self, pod: PodRequest, json_pod: Mapping[str, Any]) -> None:
        """Take over a pod of an earlier run. Which nodes fit it is not known until kube-scheduler asks again."""
        if len(self._entries) >= self._most:
            self.overflowed += 1
            return
        group = self._group(group_key(pod, json_pod), pod)
        group.open_ended = group.open_ended or not group.nodes
        self._join(Entry(pod.uid, pod.key, pod.created, self._clock(), group, retried=_retried(json_pod)))

    def delete_pod(self, uid: str) -> None:
        """Forget a pod that is gone, for good: kube-scheduler may be asking about it right now."""
        self._tombstones.add(uid)
        if entry := self._entries.get(uid):
            self.forget(entry)

    def absent_pods(self, uids: AbstractSet[str]) -> Sequence[str]:
        """All pods have been listed, these: which of those that wait are gone. Some may be newer than the list."""
        self._listed, listed_since = True, self._clock() - _LISTING_SECONDS
        return [uid for uid in self._entries.keys() - uids if self._entries[uid].since < listed_since]

    # What waking asks

    def forget(self, entry: Entry, *, placed: bool = False) -> None:
        """Let go of a pod."""
        if self._entries.get(entry.uid) is entry:
            self._leave(entry)
            self.on_forgotten(entry, placed)

    def forget_answered(self, in_flight: AbstractSet[str]) -> None:
        """Let go of pods that found a node when they were asked about again."""
        for uid in self._entries.keys() & in_flight:
            self.forget(self._entries[uid], placed=True)

    def forget_unanswered(self, now: float) -> None:
        """Let go of pods that were woken and not asked about again."""
        for entry in list(self.requeued()):
            if entry.woken_at is not None and now - entry.woken_at >= _UNANSWERED_SECONDS:
                # Of a group that was taken over one pod is tried: without an answer they are another replica's.
                for each in list(entry.group.entries.values()) if entry.group.guessed else [entry]:
                    self.forget(each)

    def requeued(self) -> Iterator[Entry]:
        """Pods that were woken and not asked about again yet."""
        return (entry for entry in self._entries.values() if entry.woken_at is not None)

    def oldest(self, group: Group, now: float, count: int) -> list[Entry]:
        """The pods of a group that may be woken now, the oldest first; one to try where the nodes are not known."""
        if group.guessed:
            if any(entry.woken_at is not None for entry in group.entries.values()):
                return []
            count = 1
        found = (entry for entry in group.entries.values() if entry.woken_at is None and entry.not_before <= now)
        return heapq.nsmallest(count, found, key=lambda entry: (entry.created, entry.key))

    def tidy(self, snapshot: Snapshot) -> None:
        """Give up the numbers of nodes that are gone, once they are many."""
        if not self.numbers.crowded(len(snapshot)):
            return
        groups = list(self._groups.values())
        renumbered = self.numbers.compact(snapshot.names, {group: group.nodes for group in groups})
        for group in groups:
            group.nodes = group.pending = renumbered[group]


def _retried(pod: Mapping[str, Any]) -> str:
    annotations = pod["metadata"].get("annotations") or {}
    return str(annotations.get(names.ANNOTATION_SCHEDULING_RETRY, ""))
