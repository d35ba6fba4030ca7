"""The cluster as the checks see it: each kind is read once, and what may not be read says so."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headroom import kube
from headroom.cli.doctor.rights import Right

Json = Mapping[str, Any]

_FORBIDDEN: Final = 403
_AT_ONCE: Final = 10
_REVIEWS: Final = "/apis/authorization.k8s.io/v1"


class NotAllowed(Exception):  # noqa: N818 - it is an answer
    """This login may not read that.

    Attributes:
        right: what it lacks.
    """

    def __init__(self, right: Right) -> None:
        super().__init__(str(right))
        self.right = right


class NotDefined(Exception):  # noqa: N818 - it is an answer
    """The cluster does not know the kind.

    Attributes:
        right: what was asked for.
    """

    def __init__(self, right: Right) -> None:
        super().__init__(str(right))
        self.right = right


class Site:
    """A cluster, and the namespace of Headroom in it.

    Args:
        api: the session.
        namespace: Headroom's.
        config_name: name of the colocation ConfigMap.
        now: the API server's clock. [unix s]
    """

    def __init__(self, api: kube.ApiServer, namespace: str, config_name: str, now: Callable[[], float]) -> None:
        self.api = api
        self.namespace = namespace
        self.config_name = config_name
        self.now = now
        self._lists: dict[tuple[Right, Any], Any] = {}
        self._objects: dict[tuple[Right, str], Json | None] = {}

    async def version(self) -> Json:
        """What the API server says of itself; every login may ask."""
        return await self.api.get("/version")

    async def every(self, right: Right, keep: Callable[[dict[str, Any]], Any] | None = None) -> Sequence[Any]:
        """All objects of a kind, or what is kept of each; read once.

        Raises:
            NotAllowed: this login may not.
            NotDefined: there is no such kind.
        """
        key = (right, keep)
        if key not in self._lists:
            try:
                self._lists[key], _ = await self.api.list(right.path(self.namespace), keep=keep)
            except kube.ApiError as error:
                if error.status == _FORBIDDEN:
                    raise NotAllowed(right) from error
                if error.not_found:
                    raise NotDefined(right) from error
                raise
        found: Sequence[Any] = self._lists[key]
        return found

    async def ours(self, right: Right) -> list[Json]:
        """The objects of a kind that are in Headroom's namespace; raises as `every` does."""
        return [each for each in await self.every(right) if each["metadata"].get("namespace") == self.namespace]

    async def one(self, right: Right, name: str) -> Json | None:
        """One object, None where there is none; read once.

        Raises:
            NotAllowed: this login may not.
        """
        if right.names and name not in right.names:
            raise ValueError(f"{name} is not among the names of the right to {right}")
        key = (right, name)
        if key not in self._objects:
            try:
                self._objects[key] = await self.api.get(f"{right.path(self.namespace)}/{name}")
            except kube.ApiError as error:
                if error.status == _FORBIDDEN:
                    raise NotAllowed(right) from error
                if not error.not_found:
                    raise
                self._objects[key] = None
        return self._objects[key]

    async def i_may(self, requests: Sequence[Json]) -> Sequence[bool]:
        """Whether this login may do each of that; every login may ask.

        Args:
            requests: `resourceAttributes` of a SelfSubjectAccessReview.
        """
        return await self._reviewed("selfsubjectaccessreviews", [{"resourceAttributes": each} for each in requests])

    async def may(self, right: Right, user: str, groups: Sequence[str], requests: Sequence[Json]) -> Sequence[bool]:
        """Whether a user may do each of that.

        Args:
            right: the right to ask, for the message.
            user: the user's name.
            groups: the user's groups.
            requests: `resourceAttributes` of a SubjectAccessReview.

        Raises:
            NotAllowed: this login may not ask.
        """
        specs = [{"user": user, "groups": list(groups), "resourceAttributes": each} for each in requests]
        try:
            return await self._reviewed(right.resource, specs)
        except kube.ApiError as error:
            if error.status == _FORBIDDEN:
                raise NotAllowed(right) from error
            raise

    async def _reviewed(self, resource: str, specs: Sequence[Json]) -> Sequence[bool]:
        kind = {"selfsubjectaccessreviews": "SelfSubjectAccessReview"}.get(resource, "SubjectAccessReview")
        slots = asyncio.Semaphore(_AT_ONCE)

        async def ask(spec: Json) -> bool:
            body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
            async with slots:
                answer = await self.api.create(f"{_REVIEWS}/{resource}", body)
            return bool((answer.get("status") or {}).get("allowed"))

        return await asyncio.gather(*(ask(spec) for spec in specs))
