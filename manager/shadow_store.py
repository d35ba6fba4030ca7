"""Reads and writes the accounts of shadow mode in the ConfigMaps that hold them."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from crds import shadow_accounts
from crds.shadow_accounts import Kept
from kubeapi import ApiError, paths
from manager.context import Run

PAUSE_SECONDS: Final = 5.0
"""Many nodes may begin at once: one ConfigMap is written at most this often. [s]"""


@dataclass(slots=True)
class ShadowStore:
    """What is known of the ConfigMaps; each is read when the first of its nodes is looked at."""

    _read: dict[str, dict[str, Kept | None]] = field(default_factory=dict)
    _reading: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    _written_at: dict[str, float] = field(default_factory=dict)

    def clear(self) -> None:
        """Forget everything: another replica may write now."""
        self._read.clear()
        self._written_at.clear()

    async def of(self, run: Run, node: str) -> Mapping[str, Kept | None]:
        """The accounts in the ConfigMap that a node's is in, by name of the node.

        Raises:
            ApiError: the API server refuses.
            ApiUnavailable: it is away.
        """
        name = shadow_accounts.name_of(node)
        async with self._reading[name]:
            if name not in self._read:
                self._read[name] = shadow_accounts.read(await _get(run, name))
        return self._read[name]

    def may_write(self, node: str, now: float) -> bool:
        """Whether the ConfigMap with a node's account was not written just now. [s]"""
        return now - self._written_at.get(shadow_accounts.name_of(node), -PAUSE_SECONDS) >= PAUSE_SECONDS

    async def write(self, run: Run, node: str, accounts: Mapping[str, Kept | None]) -> None:
        """Write accounts of one ConfigMap; those of nodes that are not in the cluster any more go with that.

        Args:
            run: the run.
            node: a node whose account is in it.
            accounts: name of a node -> its account, `None` to take it away.

        Raises:
            ApiError: the API server refuses.
            ApiUnavailable: it is away.
        """
        name, known = shadow_accounts.name_of(node), await self.of(run, node)
        gone = dict.fromkeys(known.keys() - run.context.cluster.nodes.keys())
        changes = {**gone, **accounts}
        self._written_at[name] = run.context.steady()
        texts = {each: None if kept is None else shadow_accounts.written(kept) for each, kept in changes.items()}
        await _put(run, name, texts)
        self._read[name] = {each: kept for each, kept in {**known, **changes}.items() if texts.get(each, "")}
        run.context.telemetry.writes.labels("shadow", "patched").inc()


async def _get(run: Run, name: str) -> dict[str, object] | None:
    try:
        return await run.api.get(paths.config_map(run.context.settings.namespace, name))
    except ApiError as error:
        if error.not_found:
            return None
        raise


async def _put(run: Run, name: str, data: Mapping[str, str | None]) -> None:
    """Merge into a ConfigMap; make it where there is none."""
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
