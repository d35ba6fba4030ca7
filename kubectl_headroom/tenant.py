"""The answers for a login that may not read the whole cluster, such as a tenant's with ClusterRole `view`."""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from headroom import kube

ROLE: Final = "A ClusterRoleBinding to headroom-tenant grants nodes, NodeMetrics and quotas; pods of others need more."
FORBIDDEN: Final = 403
ALL_PODS: Final = "Pods of all namespaces"  # a kind that may be denied
_T = TypeVar("_T")


@dataclass(slots=True)
class Denied:
    """The kinds that this login may not read."""

    kinds: list[str] = field(default_factory=list)

    async def unless(self, kind: str, request: Awaitable[_T], instead: _T) -> _T:
        """Return the result of a read, or another value and remember the kind where the read is forbidden.

        Raises:
            ApiError, ApiUnavailable: the read failed for another reason.
        """
        try:
            return await request
        except kube.ApiError as error:
            if error.status != FORBIDDEN:
                raise
            self.kinds.append(kind)
            return instead

    def __contains__(self, kind: str) -> bool:
        return kind in self.kinds

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def note(self, consequence: str) -> str:
        """Return a sentence with the kinds, the consequence and the remedy."""
        kinds = list(dict.fromkeys(self.kinds))
        named = " and ".join([", ".join(kinds[:-1]), kinds[-1]] if len(kinds) > 1 else kinds)
        return f"This login may not list {named}: {consequence}. {ROLE}"
