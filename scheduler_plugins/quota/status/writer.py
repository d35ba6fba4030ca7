"""Keeps the status of ElasticQuotas up to date, and records warnings. Only the leader writes."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from crds.elastic_quota import GROUP, PLURAL, VERSION, ElasticQuota
from headroom.cluster.shape import check_elastic_quota
from headroom.kube import MERGE_PATCH, ApiError, ApiServer, ApiUnavailable, paths
from headroom.kube.events import EventRecorder
from headroom.kube.unreadable_objects import Unreadable
from headroom.runtime.backoff import Backoff
from headroom.runtime.token_bucket import TokenBucket
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.status.findings import Finding, Surroundings, findings
from scheduler_plugins.quota.status.metrics import QuotaMetrics
from scheduler_plugins.quota.status.patch import Update, update

INTERVAL_SECONDS: Final = 1.0  # how often we look
WRITES_PER_SECOND: Final = 20.0  # how many statuses are written in the long run. [1/s]
WRITE_BURST: Final = 200  # how many are written at once after a quiet time. [quotas]
MISSING_RIGHT: Final = f"apiGroups: [{GROUP}], resources: [{PLURAL}/status], verbs: [patch]"
"""The rule that a role needs, as the chart gives it."""

_AT_ONCE: Final = 10
_SLICE_SECONDS: Final = 0.005
_WORDS_SECONDS: Final = 60.0
_REFUSED_SECONDS: Final = 60.0
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 30.0
_FORBIDDEN: Final = 403
_PRUNED: Final = (
    f"The definition {PLURAL}.{GROUP} has no status.conditions, so faults of quotas are only reported by Events "
    "alone: apply the definition that comes with this release"
)
_LOG: Final = logging.getLogger(__name__)

Json = Mapping[str, Any]


class Written(StrEnum):
    """The result of a write."""

    OK = "ok"  # the status is current
    GONE = "gone"  # the quota is gone
    CHANGED = "changed"  # it has changed meanwhile, and is evaluated again
    REFUSED = "refused"  # the API server refuses it
    UNAVAILABLE = "unavailable"  # the API server is away or overloaded, or another replica leads now


@dataclass(slots=True)
class _Known:
    """The last action on a quota."""

    seen: str = ""  # the watch's version of the object at the write
    answer: Json | None = None  # the object as the API server answered, which the watch has yet to bring
    wrote_at: float = float("-inf")
    not_before: float = float("-inf")
    pruned: Sequence[Json] = ()  # the conditions that we wrote and the API server did not keep
    settled: tuple[Any, ...] = ()  # the inputs when no write was needed


@dataclass(slots=True)
class Writer:
    """Writes where there is a difference, at a limited rate."""

    cluster: QuotaCluster
    api: ApiServer  # the session, which writes for the leader alone
    recorder: EventRecorder
    may_write: Callable[[], bool]  # whether this replica leads, and its cluster state is up to date
    metrics: QuotaMetrics
    clock: Callable[[], float] = time.time  # the present time [unix s]
    monotonic: Callable[[], float] = time.monotonic  # a clock that never jumps [s]
    _tokens: TokenBucket = field(default_factory=TokenBucket)
    _known: dict[str, _Known] = field(default_factory=dict)
    _turn: int = 0
    _resume_at: float = float("-inf")
    _backoff: Backoff = field(default_factory=lambda: Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS))
    _logged: bool = False
    _told_pruned: bool = False
    _unreadable: Unreadable = field(default_factory=lambda: Unreadable("ElasticQuota", check_elastic_quota))

    async def run(self) -> None:
        """Evaluate and write until cancelled. A failure is logged once and retried."""
        problem = ""
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            try:
                await self.reconcile()
                problem = ""
            except Exception as error:  # noqa: BLE001 - the outer runner: the extender lives on
                if problem != (problem := f"{type(error).__name__}: {error}"):
                    _LOG.error("The status of quotas cannot be kept: %s", error, exc_info=error)

    async def reconcile(self) -> int:
        """Write what changed; how many quotas that were."""
        if not self.may_write() or self.monotonic() < self._resume_at:
            return 0
        await self.recorder.flush()
        objects = self.cluster.quota_objects
        for uid in self._known.keys() - objects.keys():
            del self._known[uid]
        self._unreadable.retain(set(objects))
        due = await self._due(list(objects))
        done = 0
        for start in range(0, len(due), _AT_ONCE):
            if not self.may_write() or self.monotonic() < self._resume_at:
                break
            some = due[start : start + _AT_ONCE]
            results = await asyncio.gather(*(self._write(quota, change) for quota, change in some))
            done += results.count(Written.OK)
        return done

    async def _due(self, uids: Sequence[str]) -> list[tuple[Json, Update]]:
        """Return the pending writes that are allowed now. Requests are served in between."""
        if not uids:
            return []
        refill, now = 1 / WRITES_PER_SECOND, self.monotonic()
        left = self._tokens.left(WRITE_BURST, refill, now)
        surroundings, result = self._surroundings(), list[tuple[Json, Update]]()
        started = time.perf_counter()
        for number in range(len(uids)):
            if len(result) >= left:
                self._turn = (self._turn + number) % len(uids)
                break
            if time.perf_counter() - started >= _SLICE_SECONDS:
                await asyncio.sleep(0)
                started = time.perf_counter()
            uid = uids[(self._turn + number) % len(uids)]
            if (due := self._attempt(uid, surroundings, now)) is not None:
                result.append(due)
                self._tokens.take(refill, now)
        return result

    def _attempt(self, uid: str, surroundings: Surroundings, now: float) -> tuple[Json, Update] | None:
        """Return the pending write of a quota; a malformed one is logged once and stops no other."""

        def reconcile(quota: Json) -> tuple[Json, Update] | None:
            change = self._change(quota, surroundings, now)
            return None if change is None else (quota, change)

        quota = self._stored(uid)
        return None if quota is None else self._unreadable.attempt(uid, quota, reconcile)

    def _surroundings(self) -> Surroundings:
        capacity: dict[str, int] = {}
        for node in self.cluster.nodes.values():
            for name, amount in node.allocatable.items():
                capacity[name] = capacity.get(name, 0) + amount
        return Surroundings(self.cluster.ledger.total_min, capacity)

    def _stored(self, uid: str) -> Json | None:
        """Return the present quota: from the watch, or from our write until the watch has it."""
        quota = self.cluster.quota_objects.get(uid)
        state = self._known.get(uid)
        if quota is None or state is None:
            return quota
        if state.answer is not None and quota["metadata"].get("resourceVersion") == state.seen:
            quota = state.answer
        else:
            state.answer = None
        status = quota.get("status") or {}
        if not state.pruned or status.get("conditions"):
            return quota
        return {**quota, "status": {**status, "conditions": state.pruned}}

    def _change(self, stored: Json, surroundings: Surroundings, now: float) -> Update | None:
        """Return the pending write of a quota, if there is one."""
        metadata, ledger = stored["metadata"], self.cluster.ledger
        namespace = str(metadata.get("namespace") or "")
        senior = ledger.quota(namespace)
        all_of_it = [senior, *ledger.passed_over(namespace)] if senior is not None else []
        quota = next((candidate for candidate in all_of_it if candidate.uid == metadata.get("uid")), None)
        if quota is None:
            return None
        state = self._known.setdefault(quota.uid, _Known())
        bound = ledger.bound(namespace)
        uncounted = self.cluster.devices.uncounted(namespace) if quota is senior else 0
        looked_at = (metadata.get("resourceVersion"), all_of_it, bound, surroundings, uncounted)
        if now < state.not_before or looked_at == state.settled:
            return None
        used = quota.reported(bound) if quota is senior else None
        change = update(stored, used, findings(quota, all_of_it, surroundings, bound, uncounted), self.clock())
        if change is None:
            state.settled = looked_at
        # With every node that comes or goes the numbers change in the words of all quotas.
        elif change.words_alone and now - state.wrote_at < _WORDS_SECONDS:
            return None
        return change

    async def _write(self, quota: Json, change: Update) -> Written:
        metadata, now = quota["metadata"], self.monotonic()
        state = self._known[str(metadata["uid"])]
        result = await self._patch(quota, change, state)
        self.metrics.writes.labels(result).inc()
        if result is Written.OK:
            state.wrote_at = now
            for news in change.news:
                await self._warn(quota, news)
        return result

    async def _patch(self, quota: Json, change: Update, known: _Known) -> Written:
        metadata, now = quota["metadata"], self.monotonic()
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{metadata['namespace']}/{PLURAL}/{metadata['name']}"
        current = self.cluster.quota_objects.get(str(metadata["uid"]))
        try:
            answer = await self.api.patch(paths.status(path), change.body, content_type=MERGE_PATCH)
        except ApiUnavailable as error:
            self._resume_at = now + self._backoff.failed(error.retry_after)
            _LOG.debug("The status of quotas could not be written, the API server is left alone for a while: %s", error)
            return Written.UNAVAILABLE
        except ApiError as error:
            return self._refused(quota, error, known)
        if self._logged:
            _LOG.info("The status of quotas is written again")
        self._logged = False
        self._backoff.succeeded()
        known.seen, known.answer = str((current or quota)["metadata"].get("resourceVersion")), answer
        if "conditions" in change.body["status"]:
            conditions = (answer.get("status") or {}).get("conditions")
            known.pruned = () if conditions else change.body["status"]["conditions"]
            if known.pruned and not self._told_pruned:
                _LOG.warning("%s", _PRUNED)
                self._told_pruned = True
        return Written.OK

    def _refused(self, quota: Json, error: ApiError, known: _Known) -> Written:
        if error.not_found:
            return Written.GONE
        if error.conflict or "metadata.uid" in error.message:
            known.answer = None
            return Written.CHANGED
        known.not_before = self.monotonic() + _REFUSED_SECONDS
        if not self._logged:
            lacks = f" (a role lacks the rule {{{MISSING_RIGHT}}})" if error.status == _FORBIDDEN else ""
            key = f"{quota['metadata']['namespace']}/{quota['metadata']['name']}"
            _LOG.warning("The status of ElasticQuota %s could not be written%s: %s", key, lacks, error)
        self._logged = True
        return Written.REFUSED

    async def _warn(self, quota: Json, news: Finding) -> None:
        metadata = quota["metadata"]
        regarding = {"apiVersion": ElasticQuota.API_VERSION, "kind": ElasticQuota.KIND}
        regarding |= {part: metadata[part] for part in ("namespace", "name", "uid")}
        await self.recorder.record(regarding, "Warning", news.reason, "Accounting", news.message)
