"""Compares the ledger of quotas with what all pods come to: it is kept by increments, and must never drift."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from headroom.cluster.typed_pod import decode_pod, undecoded
from headroom.kube import ApiError, ApiServer, ApiUnavailable, paths
from scheduler_plugins.quota.amounts import NOTHING, Amounts, plus, quantity
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.status.metrics import QuotaMetrics
from scheduler_plugins.snapshot.watch import LIVE_PODS

CHECK_SECONDS: Final = 30.0  # how often the ledger is compared with the pods that we know. [s]
FIRST_SECONDS: Final = 5.0  # how long after the start the first comparison is made. [s]
LIST_SECONDS: Final = 3600.0  # how often it is compared with a new list of all pods, where there are quotas. [s]
CATCH_UP_SECONDS: Final = 5.0  # how long the watch may take to bring what a list has told. [s]

_SLICE: Final = 1000
_ATTEMPTS: Final = 3
_MOST_READ: Final = 1000
_MOST_TOLD: Final = 5
_LOG: Final = logging.getLogger(__name__)

Json = Mapping[str, Any]


@dataclass(slots=True)
class LedgerVerifier:
    """Checks the ledger."""

    cluster: QuotaCluster  # whose ledger
    api: ApiServer
    ready: Callable[[], bool]  # whether the watches have brought all there is, so that there is something to compare
    metrics: QuotaMetrics
    monotonic: Callable[[], float] = time.monotonic  # a clock that never jumps [s]
    sleep: Callable[[float], Any] = asyncio.sleep  # [s]

    async def run(self) -> None:
        """Check, for ever. What fails is told, and tried again."""
        listed_at, pause = self.monotonic(), FIRST_SECONDS
        while True:
            await self.sleep(pause)
            if not self.ready():
                pause = FIRST_SECONDS
                continue
            pause = CHECK_SECONDS
            try:
                await self.check_kept()
                if self.cluster.ledger.namespaces and self.monotonic() - listed_at >= LIST_SECONDS:
                    listed_at = self.monotonic()
                    await self.check_listed()
            except Exception:  # noqa: BLE001 - the outer runner: the extender lives on
                _LOG.exception("The ledger of quotas could not be checked")

    async def check_kept(self) -> Mapping[str, tuple[Amounts, Amounts]]:
        """Compare with the pods that we know. Requests are answered in between: 100,000 pods take a tenth of a second.

        Returns:
            By namespace: what bound pods are charged, and what they should be.
        """
        ledger, sums = self.cluster.ledger, dict[str, Amounts]()
        pods = list(self.cluster.pods.values())
        for start in range(0, len(pods), _SLICE):
            _sum_up(pods[start : start + _SLICE], sums)
            await asyncio.sleep(0)
        names = {*sums, *(pod.namespace for pod in pods), *ledger.namespaces}
        # Meanwhile pods came and went: what differs now is looked at again in one go.
        suspected = {name for name in names if not _equal(ledger.bound(name), sums.get(name, NOTHING))}
        found: dict[str, tuple[Amounts, Amounts]] = {}
        if suspected:
            again: dict[str, Amounts] = {}
            _sum_up((pod for pod in self.cluster.pods.values() if pod.namespace in suspected), again)
            pairs = {name: (ledger.bound(name), again.get(name, NOTHING)) for name in suspected}
            found = {name: pair for name, pair in pairs.items() if not _equal(*pair)}
        self._tell("kept", found)
        return found

    async def check_listed(self) -> Mapping[str, tuple[Amounts, Amounts]]:
        """Compare with a new list of all pods: whether the watch has told us everything.

        Pods that differ are read again one by one, a few times, as they may have changed since.

        Returns:
            By namespace: what its pods that differ are charged, and what they should be.
        """
        suspected: dict[str, str] = {}
        seen: set[str] = set()

        def take(item: Json) -> None:
            pod = self._read(item["raw"])
            if pod is None:
                return
            seen.add(pod.uid)
            if not _equal(self._charged(pod.uid), _due(pod)):
                suspected[pod.uid] = pod.key

        known = {uid: pod.key for uid, pod in self.cluster.pods.items() if self._charged(uid)}
        await self.api.list(paths.PODS, {"fieldSelector": LIVE_PODS}, take, undecoded)
        suspected |= {uid: key for uid, key in known.items() if uid not in seen and self._charged(uid)}
        found: dict[str, tuple[Amounts, Amounts]] = {}
        for _ in range(_ATTEMPTS):
            if not suspected:
                break
            await self.sleep(CATCH_UP_SECONDS)
            suspected, found = await self._read_again(suspected)
        self._tell("listed", found)
        return found

    async def _read_again(
        self, suspected: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, tuple[Amounts, Amounts]]]:
        """Those that still differ, and by how much their namespaces do."""
        left: dict[str, str] = {}
        found: dict[str, tuple[Amounts, Amounts]] = {}
        for uid, key in list(suspected.items())[:_MOST_READ]:
            due = await self._due_now(uid, key)
            charged = self._charged(uid)
            if due is None or _equal(charged, due):
                continue
            left[uid] = key
            namespace = key.partition("/")[0]
            former = found.get(namespace, (NOTHING, NOTHING))
            found[namespace] = plus(former[0], charged), plus(former[1], due)
        return left, found

    async def _due_now(self, uid: str, key: str) -> Amounts | None:
        """What a pod should be charged now; None: it cannot be told."""
        namespace, _, name = key.partition("/")
        try:
            pod = self._read(msgspec.json.encode(await self.api.get(paths.pod(namespace, name))))
        except ApiError as error:
            return NOTHING if error.not_found else None
        except ApiUnavailable:
            return None
        if pod is None:
            return None
        return _due(pod) if pod.uid == uid else NOTHING

    def _charged(self, uid: str) -> Amounts:
        """What a bound pod is charged."""
        charge = self.cluster.ledger.charge_of(uid)
        return charge.amounts if charge is not None and charge.bound else NOTHING

    def _tell(self, against: str, found: Mapping[str, tuple[Amounts, Amounts]]) -> None:
        self.metrics.differences.labels(against).set(len(found))
        self.metrics.checks.labels(against).inc()
        if not found:
            return
        words = [f"{name} is charged {_text(has)}, its pods come to {_text(due)}" for name, (has, due) in found.items()]
        more = f" and {len(words) - _MOST_TOLD} more" if len(words) > _MOST_TOLD else ""
        said = "The ledger of quotas is wrong, which is an error of the extender; a restart makes it anew: %s%s"
        _LOG.error(said, "; ".join(words[:_MOST_TOLD]), more)

    def _read(self, raw: bytes) -> QuotaPod | None:
        try:
            return self.cluster.read(decode_pod(raw))
        except Exception:  # noqa: BLE001 - the watch has told of it, and its last good state counts
            return None


def _sum_up(pods: Iterable[QuotaPod], sums: dict[str, Amounts]) -> None:
    for pod in pods:
        if pod.charged:
            sums[pod.namespace] = plus(sums.get(pod.namespace, NOTHING), pod.charge)


def _due(pod: QuotaPod) -> Amounts:
    return pod.charge if pod.charged else NOTHING


def _equal(left: Amounts, right: Amounts) -> bool:
    return left == right or all(left.get(name, 0) == right.get(name, 0) for name in {*left, *right})


def _text(amounts: Amounts) -> str:
    return ", ".join(f"{name} {quantity(name, amount)}" for name, amount in sorted(amounts.items())) or "nothing"
