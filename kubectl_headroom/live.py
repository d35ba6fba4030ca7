"""Live objects: logs in, reads, and turns every failure into one sentence."""

import asyncio
import difflib
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

import aiohttp

from crds.node_metric import GROUP, PLURAL, VERSION
from headroom import kube
from kubectl_headroom import output, progress
from kubectl_headroom.errors import FAILED, UNAVAILABLE, CommandError

Json = dict[str, Any]
Clock = Callable[[], float]  # the present time [unix s]

NODE_METRICS: Final = f"/apis/{GROUP}/{VERSION}/{PLURAL}"  # path of the NodeMetrics

TIMEOUT_SECONDS: Final = 30.0  # how long one request may take, by default of `--request-timeout` [s]

ELSEWHERE: Final = "Another namespace is named with -n."  # the way out for an object that is not there
_LOGS_REQUESTS: Final = 6  # the level from which requests are logged, as for kubectl
_FORBIDDEN: Final = 403
_UNAUTHORIZED: Final = 401


@dataclass(frozen=True, slots=True)
class Login:
    """The cluster, the user, and the timeout."""

    kubeconfig: str | None = None  # a file, or None for what kubectl would take
    context: str | None = None  # a context in it, or None for its current one
    user: str | None = None  # the user to impersonate; None: the login's
    groups: tuple[str, ...] = ()  # groups that this user is in
    timeout_seconds: float = TIMEOUT_SECONDS  # how long one request may take [s]
    overrides: kube.Overrides = field(default_factory=kube.Overrides)  # the parts of the kubeconfig that flags replace
    verbosity: int = 0  # the level of `-v`


async def server_time(api: kube.ApiServer) -> Clock:
    """Return the API server's clock for ages: the local one may be wrong. Sends a request if there was none yet."""
    if not api.server_time.is_known:
        with suppress(kube.ApiError):
            await api.get("/version")
    return api.server_time


@asynccontextmanager
async def cluster(login: Login) -> AsyncIterator[kube.ApiServer]:
    """A session with the API server; whatever it refuses inside leaves as a `CommandError`.

    Lists that take long show bars on standard error.
    """
    bars = progress.Bars()
    try:
        connection = kube.connect(login.kubeconfig, login.context, login.overrides)
        session = kube.ApiServer(connection, "kubectl-headroom", login.timeout_seconds)
        session.acts_as = kube.acts_as(login.user, login.groups)
        session.on_page = bars.page
        session.traces = [_request_log()] if login.verbosity >= _LOGS_REQUESTS else []
        async with session as api:
            yield api
    except (kube.LoginError, kube.ApiUnavailable) as error:
        raise CommandError(str(error), UNAVAILABLE) from error
    except kube.ApiError as error:
        raise CommandError(_refused(error), UNAVAILABLE if error.status == _UNAUTHORIZED else FAILED) from error
    finally:
        bars.close()


def _request_log() -> aiohttp.TraceConfig:
    """Print each request on standard error, with its status and time."""

    async def start(_: object, request: SimpleNamespace, __: object) -> None:
        request.began = time.monotonic()

    async def end(
        _: object, request: SimpleNamespace, given: aiohttp.TraceRequestEndParams | aiohttp.TraceRequestExceptionParams
    ) -> None:
        milliseconds = round(1000 * (time.monotonic() - request.began))
        if isinstance(given, aiohttp.TraceRequestEndParams):
            status = f"{given.response.status} {given.response.reason}"
        else:
            status = str(given.exception)
        output.line(f"{given.method} {given.url} {status} in {milliseconds} milliseconds", sys.stderr)

    log = aiohttp.TraceConfig()
    log.on_request_start.append(start)
    log.on_request_end.append(end)
    log.on_request_exception.append(end)
    return log


def namespace_of(api: kube.ApiServer, given: str | None) -> str:
    """The namespace that is meant: the given one, else that of the kubeconfig's context, as kubectl does.

    Args:
        api: the cluster.
        given: the value of `-n`; None: not given.
    """
    return given or api.connection.namespace or "default"


def _refused(error: kube.ApiError) -> str:
    if error.status == _UNAUTHORIZED:
        return "The API server does not accept this login: check --kubeconfig and --context, or log in again."
    if error.status == _FORBIDDEN:
        return f"{error.message}. Ask for that permission, or use another --context."
    return str(error)


async def together(*requests: Any) -> Sequence[Any]:  # noqa: ANN401 - awaitables of several types
    """Await all; when one fails, the others are cancelled and its own error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(request) for request in requests]
    except* (CommandError, kube.ApiError, kube.ApiUnavailable) as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def objects(api: kube.ApiServer, path: str, **params: str) -> list[Json]:
    items, _ = await api.list(path, params)
    return items


async def node_metrics(api: kube.ApiServer, keep: Callable[[Json], Any] | None = None) -> list[Any]:
    """Return all NodeMetrics, or their reduced forms.

    Raises:
        CommandError: the cluster does not know the kind.
    """
    try:
        return await objects(api, NODE_METRICS) if keep is None else (await api.list(NODE_METRICS, keep=keep))[0]
    except kube.ApiError as error:
        raise _unknown_kind(error) from error


async def node_metric(api: kube.ApiServer, name: str) -> Json | None:
    """The NodeMetric of a node, or None when there is none yet.

    Raises:
        CommandError: the cluster does not know the kind.
    """
    try:
        return await api.get(f"{NODE_METRICS}/{name}")
    except kube.ApiError as error:
        if error.not_found and error.reason == "NotFound":
            return None
        raise _unknown_kind(error) from error


def _unknown_kind(error: kube.ApiError) -> Exception:
    if not error.not_found:
        return error
    return CommandError(
        "This cluster does not know NodeMetrics, so Headroom is not installed in it: "
        "helm install headroom charts/headroom -n headroom-system --create-namespace --set image.registry=REGISTRY"
    )


async def node(api: kube.ApiServer, name: str) -> Json:
    """The Node of that name.

    Raises:
        CommandError: there is none; the message suggests names that are close.
    """
    try:
        return await api.get(kube.paths.node(name))
    except kube.ApiError as error:
        if not error.not_found:
            raise
    names = [str(item["metadata"]["name"]) for item in await objects(api, kube.paths.NODES)]
    raise CommandError(f"There is no node {name!r}. {suggestion(name, names, 'nodes')}")


async def pod(api: kube.ApiServer, namespace: str, name: str) -> Json:
    """The Pod of that name.

    Raises:
        CommandError: there is none; the message suggests names that are close.
    """
    result = await kube.optional(api.get(kube.paths.pod(namespace, name)))
    if result is not None:
        return result
    names = [str(item["metadata"]["name"]) for item in await objects(api, kube.paths.pods(namespace))]
    raise CommandError(
        f"There is no pod {name!r} in namespace {namespace}. {suggestion(name, names, 'pods')} {ELSEWHERE}"
    )


def suggestion(name: str, names: Sequence[str], kind: str) -> str:
    """Return a suggestion: similar names, else some existing ones.

    Args:
        name: the requested name.
        names: those that there are.
        kind: of what, in the plural.
    """
    if not names:
        return f"There are no {kind}."
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or [known for known in names if name in known][:3]
    if near:
        return f"Did you mean {' or '.join(near)}?"
    if len(names) == 1:
        return f"There is only {names[0]}."
    return f"There are {len(names)} {kind}, such as {', '.join(sorted(names)[:3])}."


async def config_map(api: kube.ApiServer, namespace: str, name: str) -> Json | None:
    """A ConfigMap, or None where there is none."""
    return await kube.optional(api.get(kube.paths.config_map(namespace, name)))


async def if_allowed(api: kube.ApiServer, path: str) -> Json | None:
    """An object that is worth showing, but not worth failing for: None where there is none or it may not be read."""
    try:
        return await api.get(path)
    except kube.ApiError:
        return None
