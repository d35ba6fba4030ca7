"""kopf as a library: its settings, its login, and one run of it among our own tasks.

kopf watches ConfigMaps of our namespace, Nodes and NodeMetrics. It leaves no trace on them: handlers are `on.event`
only, it posts no events, keeps no progress, and takes no part in its own peering.
"""

import asyncio
import signal
from http import HTTPStatus
from typing import Any

import aiohttp
import kopf

from kubeapi import Connection
from manager.context import Run
from manager.handlers import config, node_metric, nodes
from manager.handlers.config import ConfigKeeper
from manager.settings import Settings


def settings_for(settings: Settings) -> kopf.OperatorSettings:
    """Settings of kopf that leave no trace on what it watches."""
    own = kopf.OperatorSettings()
    own.peering.standalone = True
    own.posting.enabled = False
    own.scanning.disabled = True
    own.process.ultimate_exiting_timeout = None
    own.persistence.finalizer = "headroom.manager/never-set"
    own.queueing.idle_timeout = 0.5
    own.watching.chunk_size = 500
    own.watching.connect_timeout = 10
    own.watching.reconnect_backoff = 0.5
    own.networking.request_timeout = 60
    own.networking.connect_timeout = 10
    own.networking.error_backoffs = (0.5, 1, 2, 4, 8)
    own.watching.field_selectors["v1", "configmaps"] = f"metadata.name={settings.config_name}"
    return own


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set an event on SIGINT and SIGTERM."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)


async def operate(run: Run, connection: Connection, keeper: ConfigKeeper, stop: asyncio.Event) -> None:
    """Run kopf until it is stopped, or gives up with whatever error it met.

    When it ends, it cancels every task that began after it; tasks from before are left alone.

    Args:
        run: what handlers work on.
        connection: how to log in.
        keeper: takes the ConfigMap.
        stop: set to end it.
    """
    registry = kopf.OperatorRegistry()
    config.register(registry, run, keeper)
    nodes.register(registry, run)
    node_metric.register(registry, run)

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:  # noqa: ANN401
        return kopf.AiohttpSession(server=connection.server, aiohttp_session=_session(connection))

    ours = asyncio.all_tasks()
    own = run.context.settings
    tasks = await kopf.spawn_tasks(
        registry=registry, settings=settings_for(own), namespaces=[own.namespace], stop_flag=stop
    )
    stop_on_signals(stop)  # kopf has taken them
    await kopf.run_tasks(tasks, ignored=ours)


def _session(connection: Connection) -> aiohttp.ClientSession:
    """A session with our login, whose token is read anew as it is renewed."""

    async def authorize(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        header = await asyncio.to_thread(connection.authorization)
        if header:
            request.headers["Authorization"] = header
        request.server_hostname = connection.server_hostname
        response = await handler(request)
        if response.status == HTTPStatus.UNAUTHORIZED:
            await asyncio.to_thread(connection.forget_authorization)
        return response

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=connection.tls or False),
        headers={"User-Agent": "headroom-manager"},
        middlewares=(authorize,),
        proxy=connection.proxy,
    )
