"""What ResourceQuotas allow each namespace, read now and then."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headroom.kube import ApiError, ApiServer
from scheduler_plugins.quota.status.findings import Hard, hard_by_namespace

RESOURCE_QUOTAS: Final = "/api/v1/resourcequotas"  # path of the ResourceQuotas of all namespaces
READ_SECONDS: Final = 30.0  # how often they are read; earlier when a quota's bounds have changed

_SOONEST_SECONDS: Final = 2.0
_RETRY_SECONDS: Final = 300.0
_LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class NamespaceLimits:
    """Knows the ResourceQuotas. Where they may not be read nothing is said of them."""

    api: ApiServer
    monotonic: Callable[[], float] = time.monotonic  # a clock that never jumps [s]
    _hard: Mapping[str, Hard] | None = None
    _read_at: float = float("-inf")
    _not_before: float = float("-inf")
    _specs: Mapping[str, Any] = field(default_factory=dict)
    _told: bool = False

    def of(self, namespace: str) -> Hard | None:
        """What a namespace is allowed; None: it is not known."""
        return None if self._hard is None else self._hard.get(namespace, {})

    async def refresh(self, quotas: Mapping[str, Mapping[str, Any]]) -> None:
        """Read them, if it is time. Never raises: what was read before stays."""
        now, specs = self.monotonic(), {uid: quota.get("spec") for uid, quota in quotas.items()}
        age = now - self._read_at
        due = age >= READ_SECONDS or (specs != self._specs and age >= _SOONEST_SECONDS)
        if not quotas or not due or now < self._not_before:
            return
        self._read_at = now
        try:
            items, _ = await self.api.list(RESOURCE_QUOTAS)
            self._hard = hard_by_namespace(items)
        except Exception as error:  # noqa: BLE001 - ResourceQuotas of any shape
            if isinstance(error, ApiError):
                self._not_before = now + _RETRY_SECONDS
            if not self._told:
                _LOG.warning("ResourceQuotas cannot be read, so nothing is said of them in quotas: %s", error)
            self._told = True
            return
        self._specs, self._told = specs, False
