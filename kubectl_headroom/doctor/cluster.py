"""The cluster for the checks: objects are read before a check runs, and a denied read is recorded."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from crds.names import LAST_GOOD_NAME
from headroom import kube
from kubectl_headroom import manager_state
from kubectl_headroom.doctor.node_metric import NodeMetricSummary
from kubectl_headroom.doctor.objects import AGENT, MANAGER, SCHEDULER, MidPod, Pod, name
from kubectl_headroom.doctor.permissions import (
    ALL_PODS,
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    NODE_METRICS,
    PODS,
    Permission,
)

Json = Mapping[str, Any]

_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_CONCURRENT_REVIEWS: Final = 10
_PARSE: Final = {PODS: Pod.of, ALL_PODS: MidPod.of, NODE_METRICS: NodeMetricSummary.of}


class Forbidden(Exception):  # noqa: N818 - it is an answer
    """This login lacks a permission, the first argument."""


class UnknownKind(Exception):  # noqa: N818 - it is an answer
    """The cluster does not define the kind of a permission, the first argument."""


class Cluster:
    """The objects of a cluster, and the namespace of Headroom in it.

    Args:
        api: the session.
        namespace: Headroom's.
        config_name: name of the colocation ConfigMap where the manager names none.
        now: the API server's clock. [unix s]
        preflight: whether the checks are those before an install.
    """

    def __init__(
        self, api: kube.ApiServer, namespace: str, config_name: str, now: Callable[[], float], *, preflight: bool
    ) -> None:
        self.api = api
        self.namespace = namespace
        self.now = now
        self.preflight = preflight
        self._given_config_name = config_name
        self._answers: dict[tuple[Permission | None, str], Any] = {}

    async def read(self, permissions: Iterable[Permission]) -> None:
        """Read the API server's version and all objects of some permissions, each once.

        A refusal is raised when a check reads the object; only an API server that is gone raises here.
        """
        await self._keep((None, ""), "/version")
        for permission in permissions:
            if permission.verb == "list":
                await self._keep((permission, ""), permission.path(self.namespace))
            elif permission.verb == "get":
                for called in self._names(permission):
                    await self._keep((permission, called), f"{permission.path(self.namespace)}/{called}")

    def _names(self, permission: Permission) -> Sequence[str]:
        if permission == NAMESPACES:
            return [self.namespace]
        if permission != CONFIG_MAPS:
            return permission.names
        deployments = self._answers.get((DEPLOYMENTS, ""))
        config_names = [self.config_name] if isinstance(deployments, list) else []
        return [*config_names, LAST_GOOD_NAME, SCHEDULER]

    async def _keep(self, key: tuple[Permission | None, str], path: str) -> None:
        if key in self._answers:
            return
        permission, called = key
        try:
            if permission is None or called:
                self._answers[key] = await self.api.get(path)
            else:
                self._answers[key], _ = await self.api.list(path, keep=_PARSE.get(permission))
        except kube.ApiUnavailable as failure:
            if failure.status is None:
                raise
            self._answers[key] = failure
        except kube.ApiError as failure:
            self._answers[key] = failure

    def _answer(self, key: tuple[Permission | None, str]) -> Any:  # noqa: ANN401 - the result of the key
        answer = self._answers[key]
        if isinstance(answer, kube.ApiError) and answer.status == _FORBIDDEN:
            raise Forbidden(key[0]) from answer
        if isinstance(answer, kube.ApiError) and answer.status == _NOT_FOUND:
            if not key[1]:
                raise UnknownKind(key[0]) from answer
            return None
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def version(self) -> str:
        """The API server's, such as "v1.33.5-gke.1"; every login may read it."""
        return str(self._answer((None, "")).get("gitVersion", ""))

    def list(self, permission: Permission) -> Sequence[Any]:
        """Return all objects of a kind; Pods and NodeMetrics in their reduced forms.

        Raises:
            Forbidden: this login may not.
            UnknownKind: there is no such kind.
        """
        result: Sequence[Any] = self._answer((permission, ""))
        return result

    def get(self, permission: Permission, called: str) -> Json | None:
        """An object, None where there is none.

        Raises:
            Forbidden: this login may not.
        """
        result: Json | None = self._answer((permission, called))
        return result

    def workload(self, component: str) -> Json | None:
        """The Deployment or DaemonSet of a component, None where there is none; raises as `list` does."""
        result = self.list(DAEMON_SETS if component == AGENT else DEPLOYMENTS)
        deployments = (deployment for deployment in result if deployment["metadata"].get("namespace") == self.namespace)
        return next((deployment for deployment in deployments if name(deployment) == component), None)

    def pods(self, component: str) -> Sequence[Pod]:
        """The pods of a component that are not ending; raises as `list` does."""
        return [pod for pod in self.list(PODS) if pod.component == component and not pod.ending]

    @property
    def config_name(self) -> str:
        """Name of the colocation ConfigMap: the one that the manager reads, else the one that was given."""
        return manager_state.flag(self.workload(MANAGER), "--config-name") or self._given_config_name

    async def i_may(self, requests: Sequence[Json]) -> Sequence[bool]:
        """Return whether this login may do each of that (`resourceAttributes`); every login may send this review."""
        slots = asyncio.Semaphore(_CONCURRENT_REVIEWS)

        async def review(request: Json) -> bool:
            kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
            body = {**kind, "spec": {"resourceAttributes": request}}
            async with slots:
                answer = await self.api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
            return bool((answer.get("status") or {}).get("allowed"))

        return await asyncio.gather(*(review(request) for request in requests))
