"""One patch of a pod's annotation, which has kube-scheduler try the pod again."""

import logging
from enum import StrEnum
from typing import Any, Final, Protocol

from crds import names
from headroom.kube import MERGE_PATCH, ApiError, ApiUnavailable, paths

MISSING_RIGHT: Final = 'apiGroups: [""], resources: [pods/status], verbs: [patch]'
"""The rule that a role needs, as the chart gives it."""

_FORBIDDEN: Final = 403
_INVALID: Final = 422
_PAUSE_SECONDS: Final = 60.0
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 30.0

_LOG: Final = logging.getLogger(__name__)


class Patched(StrEnum):
    """What became of a patch."""

    OK = "ok"
    """The pod was patched."""
    GONE = "gone"
    """There is no such pod any more."""
    CHANGED = "changed"
    """There is another pod of that name."""
    FORBIDDEN = "forbidden"
    """We may not patch the status of pods."""
    REFUSED = "refused"
    """The API server, or a webhook, refuses this one."""
    UNAVAILABLE = "unavailable"
    """The API server is away or overloaded."""


class PatchesPods(Protocol):
    """The part of the API session that is needed."""

    async def patch(self, path: str, body: dict[str, Any], content_type: str = ...) -> Any:  # noqa: ANN401 - JSON
        """Change parts of an object."""
        ...


class Patcher:
    """Patches pods, and knows when to leave the API server alone.

    Args:
        api: the session.
    """

    def __init__(self, api: PatchesPods) -> None:
        self._api = api
        self._resume_at = float("-inf")
        self._pause = _FIRST_PAUSE_SECONDS
        self._told = False

    def paused(self, now: float) -> bool:
        """Whether to leave the API server alone. [now: a clock that never jumps, s]"""
        return now < self._resume_at

    @property
    def troubled(self) -> bool:
        """Whether the last patch found no API server, or no right to do so."""
        return self._told or self._pause != _FIRST_PAUSE_SECONDS

    async def patch(self, key: str, uid: str, value: str, now: float) -> Patched:
        """Patch a pod, unless another one has taken its name.

        Args:
            key: `namespace/name`.
            uid: its uid.
            value: of the annotation.
            now: a clock that never jumps. [s]
        """
        namespace, _, name = key.partition("/")
        body = {"metadata": {"uid": uid, "annotations": {names.ANNOTATION_SCHEDULING_RETRY: value}}}
        try:
            # By the subresource, which takes annotations, too: the right to patch pods themselves would be the right to
            # run any image in anybody's pod.
            await self._api.patch(f"{paths.pod(namespace, name)}/status", body, content_type=MERGE_PATCH)
        except ApiUnavailable as error:
            self._resume_at = now + (error.retry_after or self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
            _LOG.debug("Pod %s could not be woken, the API server is left alone for a while: %s", key, error)
            return Patched.UNAVAILABLE
        except ApiError as error:
            return self._refused(key, error, now)
        if self._told:
            _LOG.info("Refused pods are woken again")
        self._pause, self._told = _FIRST_PAUSE_SECONDS, False
        return Patched.OK

    def _refused(self, key: str, error: ApiError, now: float) -> Patched:
        if error.not_found:
            return Patched.GONE
        if error.status == _INVALID and "metadata.uid" in error.message:
            return Patched.CHANGED
        if error.status == _FORBIDDEN and 'cannot patch resource "pods/status"' in error.message:
            self._resume_at = now + _PAUSE_SECONDS
            if not self._told:
                said = "Refused pods are not woken when a reason goes away, a role lacks the rule {%s}: %s"
                _LOG.warning(said, MISSING_RIGHT, error)
            self._told = True
            return Patched.FORBIDDEN
        _LOG.warning("Pod %s could not be woken, it is tried again later: %s", key, error)
        return Patched.REFUSED
