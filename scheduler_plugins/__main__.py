"""headroom-scheduler: the composition root. Settings -> cache, plugins, server, watches."""

import asyncio
import errno
import json
import logging
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
from aiohttp import web

from kubeapi import ApiError, ApiServer, ApiUnavailable, Connection, LoginError, connect
from scheduler_plugins.arguments import encode
from scheduler_plugins.extender.server import Server
from scheduler_plugins.extender.service import Extender
from scheduler_plugins.framework.cycle import Cycle
from scheduler_plugins.settings import Profile, Settings, SettingsError, parse_flags
from scheduler_plugins.snapshot.arrays import NodeTable
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.watch import ClusterWatch
from scheduler_plugins.telemetry import Telemetry
from service import logs

_LOG: Final = logging.getLogger("headroom-scheduler")
_WRONG_USE: Final = 2


class StartError(Exception):
    """The extender cannot start; the message says why and what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the extender until it is told to stop.

    Returns:
        The exit status: 0 after a signal, 2 for settings that cannot be used, 1 when it cannot start.
    """
    try:
        settings = parse_flags(sys.argv[1:] if arguments is None else arguments)
        logs.set_up(settings.log_format, settings.log_level)
        connection = connect(settings.kubeconfig)
    except (SettingsError, LoginError) as error:
        print(f"headroom-scheduler: {error}", file=sys.stderr)
        return _WRONG_USE
    try:
        asyncio.run(serve(settings, connection))
    except StartError as error:
        print(f"headroom-scheduler: {error}", file=sys.stderr)
        return 1
    return 0


@dataclass(frozen=True, slots=True)
class Parts:
    """The extender, put together."""

    cache: ClusterCache
    """The cluster."""
    watch: ClusterWatch
    """What feeds it."""
    server: Server
    """What kube-scheduler talks to."""


def assemble(settings: Settings, api: ApiServer) -> Parts:
    """Put the parts together; nothing runs yet."""
    profile, telemetry = settings.profile, Telemetry()
    cache = ClusterCache(profile.load_rules, _tables(profile), profile.in_flight_seconds)
    watch = ClusterWatch(api, cache, time.time)
    cycle = Cycle(profile.enabled, telemetry.observe_plugin)
    extender = Extender(cache, cycle, profile.answering, time.time, np.random.default_rng())
    telemetry.watch("nodes", "Nodes that are known.", lambda: len(cache.nodes))
    telemetry.watch("pods_in_flight", "Pods answered for whose binding was not seen.", lambda: len(cache.in_flight))
    telemetry.watch("unreadable_objects", "Objects that could not be understood.", lambda: len(watch.unreadable))

    def complaints() -> list[str]:
        return watch.complaints(settings.stale_seconds)

    def ready() -> list[str]:
        return [] if watch.synced else complaints()

    return Parts(cache, watch, Server(extender, ready, complaints, telemetry))


def _tables(profile: Profile) -> dict[str, NodeTable]:
    return {part.name: part.plugin for part in profile.enabled if isinstance(part.plugin, NodeTable)}


async def serve(settings: Settings, connection: Connection) -> None:
    """Answer until SIGTERM or SIGINT.

    Raises:
        StartError: the address cannot be listened on.
    """
    async with ApiServer(connection, user_agent="headroom-scheduler") as api:
        parts = assemble(settings, api)
        runner = web.AppRunner(parts.server.application(), access_log=None)
        await runner.setup()
        try:
            await _listen(runner, settings)
            _LOG.info("API server %s (%s)", connection.server, connection.origin or "given")
            watching = asyncio.create_task(_watch(api, parts.watch))
            try:
                await _until_told_to_stop(watching)
            finally:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching
        finally:
            await runner.cleanup()


async def _watch(api: ApiServer, watch: ClusterWatch) -> None:
    """Watch, once the API server answers. Requests are answered meanwhile, by saying that nothing is known yet."""
    told, pause = False, 0.5
    while True:
        try:
            await api.get("/version")
            break
        except (ApiUnavailable, ApiError) as error:
            if not told:
                _LOG.warning("Waiting for the API server: %s", error)
            told = True
        await asyncio.sleep(pause)
        pause = min(2 * pause, 10.0)
    await watch.run()


async def _listen(runner: web.AppRunner, settings: Settings) -> None:
    site = web.TCPSite(runner, settings.host, settings.port)
    try:
        await site.start()
    except OSError as error:
        address = f"{settings.host}:{settings.port}"
        if error.errno == errno.EADDRINUSE:
            raise StartError(f"{address} is in use by another program: choose another with --listen") from error
        raise StartError(f"Cannot listen on {address}: {error.strerror or error}") from error
    for part in settings.profile.enabled:
        _LOG.info("Plugin %s, weight %g, %s", part.name, part.weight, json.dumps(encode(part.plugin)))
    host, port = runner.addresses[0][:2]
    _LOG.info("Mode %s, listening on %s:%s", settings.profile.answering.mode, host, port)


async def _until_told_to_stop(watching: asyncio.Task[None]) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stopped.set)
    waiting = asyncio.create_task(stopped.wait())
    await asyncio.wait((waiting, watching), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if watching.done():
        watching.result()


if __name__ == "__main__":
    sys.exit(main())
