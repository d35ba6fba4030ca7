"""kopf as a library: its settings, its login, and one run of it among our own tasks.

kopf watches ConfigMaps of our namespace and Nodes. It leaves no trace on them: handlers are `on.event`
only, it posts no events, keeps no progress, and takes no part in its own peering.
"""

import asyncio
import signal
from http import HTTPStatus
from typing import Any, Final, cast

import aiohttp
import kopf

from headroom.kube import ApiServer
from headroom.kube.connector import connector, http_proxy
from manager.context import Run
from manager.handlers import admission, config, nodes
from manager.handlers.config import ConfigReconciler
from manager.settings import Settings

_ENDING_SECONDS: Final = 10.0
_SWEEPS: Final = 10


class _NoDiffs(kopf.DiffBaseStorage):
    """Stores nothing to compare: no handler uses kopf's diffs, and for them it would copy each object."""

    def build(self, *, body: kopf.Body, extra_fields: object = None) -> kopf.BodyEssence:  # noqa: ARG002
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> None:
        """Nothing was stored."""

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Store nothing."""


def settings_for(settings: Settings) -> kopf.OperatorSettings:
    """Settings of kopf that write nothing to the objects that it watches."""
    kopf_settings = kopf.OperatorSettings()
    kopf_settings.peering.standalone = True
    kopf_settings.posting.enabled = False
    kopf_settings.scanning.disabled = True
    kopf_settings.process.ultimate_exiting_timeout = None
    kopf_settings.persistence.diffbase_storage = _NoDiffs()
    kopf_settings.persistence.finalizer = "headroom.manager/never-set"
    kopf_settings.queueing.idle_timeout = 0.5
    kopf_settings.watching.chunk_size = 500
    kopf_settings.watching.connect_timeout = 10
    kopf_settings.watching.reconnect_backoff = 0.5
    kopf_settings.networking.request_timeout = 60
    kopf_settings.networking.connect_timeout = 10
    kopf_settings.networking.error_backoffs = (0.5, 1, 2, 4, 8)
    kopf_settings.watching.field_selectors["v1", "configmaps"] = f"metadata.name={settings.config_name}"
    return kopf_settings


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set an event on SIGINT and SIGTERM."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)


class WatchesEnded(Exception):  # noqa: N818 - a state of the world: another run follows
    """kopf cannot continue; one line with the reason."""


async def operate(run: Run, api: ApiServer, config_reconciler: ConfigReconciler, stop: asyncio.Event) -> None:
    """Run kopf until it is stopped, or gives up with whatever error it met.

    When it ends, it cancels every task that began after it; tasks from before are left alone.

    Raises:
        WatchesEnded: the certificate of the API server is no longer trusted.
    """
    distrusted, sessions = asyncio.Event(), list[aiohttp.ClientSession]()
    registry = kopf.OperatorRegistry()
    config.register(registry, run, config_reconciler)
    nodes.register(registry, run)
    kopf_settings = settings_for(run.context.settings)
    if run.context.webhook is not None:
        admission.register(registry)
        kopf_settings.admission.server = cast("Any", run.context.webhook.server)  # any object that can be called

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:  # noqa: ANN401
        # Called again after a 401, when the login has been read again.
        session = _session(api, run.context.settings.user_agent, distrusted)
        sessions.append(session)
        return kopf.AiohttpSession(server=api.connection.server, aiohttp_session=session)

    ours = asyncio.all_tasks()
    settings = run.context.settings
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=kopf_settings,
        namespaces=[settings.namespace],
        stop_flag=stop,
        # kopf makes one up from the name of the user, and an image's uid need not have a name.
        identity=cast("Any", settings.identity or "headroom-manager"),
    )
    stop_on_signals(stop)  # kopf has taken them
    running = asyncio.create_task(kopf.run_tasks(tasks, ignored=ours))
    distrust = asyncio.create_task(distrusted.wait())
    try:
        await asyncio.wait({running, distrust, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        if distrusted.is_set():  # a session keeps the authority that it began with
            raise WatchesEnded("the API server's certificate is no longer trusted: reading the login again")
        for task in tasks:
            if task.done() and not task.cancelled():
                task.result()
        await asyncio.wait({running}, timeout=_ENDING_SECONDS)
    finally:
        await _sweep(running, ours)
        for session in sessions:  # kopf closes them only when it ends by itself
            await session.close()


async def _sweep(running: asyncio.Task[None], ours: set[asyncio.Task[Any]]) -> None:
    """Cancel what kopf leaves behind.

    A watch that is cancelled in the same moment as its pause-waiter takes that for a pause and never ends, and
    kopf then never stops waiting for it. So the watches go first, and they take their pause-waiters with them.
    """
    ours = {*ours, running}
    for _ in range(_SWEEPS):
        left = {task for task in asyncio.all_tasks() - ours if not task.get_name().startswith("pause-waiter")}
        if not left:
            break
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=1.0)
    running.cancel()
    await asyncio.wait({running}, timeout=_ENDING_SECONDS)


def _session(api: ApiServer, user_agent: str, distrusted: asyncio.Event) -> aiohttp.ClientSession:
    """A session with the login of another one: its token of the moment, and the certificates of now.

    `distrusted` is set when the server shows a certificate that these do not prove.
    """
    began = api.connection

    async def authorize(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        login = api.connection
        header = await asyncio.to_thread(login.authorization)
        if header:
            request.headers["Authorization"] = header
        request.server_hostname = login.server_hostname
        try:
            response = await handler(request)
        except aiohttp.ClientConnectorCertificateError:
            distrusted.set()
            raise
        if response.status == HTTPStatus.UNAUTHORIZED:
            await api.renew(login)
        return response

    return aiohttp.ClientSession(
        connector=connector(began.proxy_in_use, limit=0, ssl=began.tls or False),
        headers={"User-Agent": user_agent},
        middlewares=(authorize,),
        proxy=http_proxy(began.proxy_in_use),
    )
