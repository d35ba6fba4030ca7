"""Reads and writes the accounts of shadow mode in their ConfigMaps."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from crds import shadow_accounts
from crds.shadow_accounts import StoredAccounts
from headroom.kube import ApiError, optional, paths
from headroom.runtime.backoff import Backoff
from manager.context import Run

_LOG: Final = logging.getLogger(__name__)
PAUSE_SECONDS: Final = 5.0
"""Many nodes may begin at once: one ConfigMap is written at most this often, and less while that fails. [s]"""
FORBIDDEN_SECONDS: Final = 300.0  # after a refusal for lack of rights, writing is tried again after this long [s]
_FORBIDDEN: Final = 403


@dataclass(slots=True)
class ShadowStore:
    """The ConfigMaps as last read; each is read when the first of its nodes is reconciled."""

    _read: dict[str, dict[str, StoredAccounts | None]] = field(default_factory=dict)
    _reading: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    _retry_at: dict[str, float] = field(default_factory=dict)
    _backoffs: defaultdict[str, Backoff] = field(
        default_factory=lambda: defaultdict(lambda: Backoff(PAUSE_SECONDS, FORBIDDEN_SECONDS))
    )
    _forbidden_until: float = float("-inf")
    _failure_logged: bool = False

    def clear(self) -> None:
        """Drop everything: another replica may write now."""
        self._read.clear()
        self._retry_at.clear()

    async def of(self, run: Run, node: str) -> Mapping[str, StoredAccounts | None] | None:
        """The accounts in a node's ConfigMap, by name of the node; `None` while the right is missing."""
        name = shadow_accounts.name_of(node)
        async with self._reading[name]:
            if name not in self._read:
                if self.forbidden(run.context.steady()):
                    return None
                try:
                    path = paths.config_map(run.context.settings.namespace, name)
                    self._read[name] = shadow_accounts.read(await optional(run.api.get(path)))
                except ApiError as error:
                    self._forbid(error, run.context.steady())
                    return None
        return self._read[name]

    def forbidden(self, now: float) -> bool:
        return now < self._forbidden_until

    def wait(self, node: str, now: float) -> float:
        """Return how long the ConfigMap with a node's account is not to be written; 0 when it may be now. [s]"""
        return max(self._retry_at.get(shadow_accounts.name_of(node), now) - now, 0.0)

    async def write(self, run: Run, node: str, accounts: Mapping[str, StoredAccounts | None]) -> bool:
        """Write accounts of one ConfigMap; those of nodes that are gone are removed.

        Returns:
            Whether they were written; they are not while the right is missing.
        """
        name, known = shadow_accounts.name_of(node), await self.of(run, node)
        now = run.context.steady()
        if known is None or self.forbidden(now):
            return False
        gone = dict.fromkeys(known.keys() - run.context.cluster.nodes.keys())
        changes = {**gone, **accounts}
        self._retry_at[name] = now + self._backoffs[name].failed()  # until it has succeeded
        texts = {each: None if kept is None else shadow_accounts.written(kept) for each, kept in changes.items()}
        try:
            await _put(run, name, texts)
        except ApiError as error:
            self._forbid(error, now)
            return False
        self._retry_at[name], self._failure_logged = now + PAUSE_SECONDS, False
        self._backoffs[name].succeeded()
        self._read[name] = {each: kept for each, kept in {**known, **changes}.items() if texts.get(each, "")}
        run.context.metrics.writes.labels("shadow", "patched").inc()
        return True

    def _forbid(self, error: ApiError, now: float) -> None:
        """Stop writing for a while, and log it once; any other refusal is the caller's."""
        if error.status != _FORBIDDEN:
            raise error
        self._forbidden_until = now + FORBIDDEN_SECONDS
        self._retry_at.clear()
        if not self._failure_logged:
            self._failure_logged = True
            _LOG.warning(
                "The accounts of shadow mode cannot be stored, all else works: %s. Is the manager's role older than "
                "the manager? Upgrade the Helm release as a whole.",
                error,
            )


async def _put(run: Run, name: str, data: Mapping[str, str | None]) -> None:
    """Merge into a ConfigMap; create it where there is none."""
    namespace = run.context.settings.namespace
    try:
        await run.api.patch(paths.config_map(namespace, name), {"data": data})
    except ApiError as error:
        if not error.not_found:
            raise
        metadata = {"name": name, "namespace": namespace}
        present = {node: text for node, text in data.items() if text is not None}
        if present:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": present}
            await run.api.create(f"/api/v1/namespaces/{namespace}/configmaps", body)
