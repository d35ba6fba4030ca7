"""headroom-scheduler: starts and stops the parts that `wiring` assembles."""

import asyncio
import errno
import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from headroom.kube import ApiError, ApiServer, ApiUnavailable, Connection, LoginError, connect
from headroom.runtime import http, huge_pages, logs
from headroom.runtime.backoff import Backoff
from headroom.runtime.option_types import ADDRESS
from headroom.runtime.options import WrongSetting
from scheduler_plugins.profile import summary
from scheduler_plugins.settings import PROG, Settings, load
from scheduler_plugins.snapshot.watch import ClusterWatch
from scheduler_plugins.steps import COMPILED
from scheduler_plugins.wiring import Parts, assemble

_LOG: Final = logging.getLogger("headroom-scheduler")
_WRONG_USE: Final = 2


class StartError(Exception):
    """The extender cannot start; the message has the reason and the way out."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the extender until SIGTERM or SIGINT.

    Returns:
        The exit status: 0 after a signal, 2 for settings that cannot be used, 1 when it cannot start.
    """
    try:
        settings = load(arguments)
        if settings.check:
            print("\n".join(summary(settings.profile)))
            return 0
        logs.set_up(settings.log_format, settings.log_level)
        connection = connect(settings.kubeconfig)
    except (WrongSetting, LoginError) as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return _WRONG_USE
    try:
        asyncio.run(serve(settings, connection))
    except StartError as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return 1
    return 0


async def serve(settings: Settings, connection: Connection) -> None:
    """Answer until SIGTERM or SIGINT. Raises StartError: the address cannot be listened on."""
    async with ApiServer(connection, user_agent="headroom-scheduler") as api:
        parts = assemble(settings, api)
        served = await _listen_all(parts, settings)
        try:
            _LOG.info("API server %s (%s)", connection.server, connection.origin or "given")
            if not COMPILED:
                _LOG.info("The extender runs without its compiled module, so it needs more CPU")
            running = asyncio.create_task(_run(api, parts))
            try:
                await _until_stopped(running)
            finally:
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running
        finally:
            for server in served:
                await server.close()


async def _run(api: ApiServer, parts: Parts) -> None:
    """Run what runs in the background. Meanwhile requests are answered: at first, that nothing is known yet."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_watch(api, parts.watch), name="watch")
        group.create_task(_use_huge_pages(parts.watch), name="huge pages")
        for name, run in parts.background.items():
            group.create_task(run(), name=name)


async def _watch(api: ApiServer, watch: ClusterWatch) -> None:
    """Watch, once the API server answers."""
    texts, backoff = False, Backoff(0.5, 10.0)
    while True:
        try:
            await api.get("/version")
            break
        except (ApiUnavailable, ApiError) as error:
            if not texts:
                _LOG.warning("Waiting for the API server: %s", error)
            texts = True
        await asyncio.sleep(backoff.failed())
    await watch.run()


async def _use_huge_pages(watch: ClusterWatch) -> None:
    """Move the heap into huge pages, once it holds the cluster."""
    await watch.prepared.wait()
    await asyncio.to_thread(huge_pages.collapse)


async def _listen_all(parts: Parts, settings: Settings) -> list[http.Served]:
    """Listen for kube-scheduler, and for a Prometheus and clients of load-watcher where those are wanted."""
    served = [await _listen(parts, settings)]
    if settings.metrics_listen is None:
        return served
    # These clients have no certificate to show.
    tls = replace(settings.tls, client_ca=None) if settings.tls else None
    host, port = settings.metrics_listen
    try:
        served.append(await http.serve(parts.server.open_pages(), host, port, tls, http.OPEN))
    except OSError as error:
        await served[0].close()
        raise StartError(f"Cannot listen on --metrics-listen {host}:{port}: {error.strerror or error}") from error
    pages = "/metrics and /watcher" if settings.watcher else "/metrics"
    _LOG.info("Serving %s on %s port %d", pages, host or "all addresses", served[-1].port)
    return served


async def _listen(parts: Parts, settings: Settings) -> http.Served:
    try:
        served = await http.serve(parts.server.pages(), *settings.listen, settings.tls)
    except http.CertificateError as error:
        raise StartError(str(error)) from error
    except OSError as error:
        raise StartError(_listen_error(settings, error)) from error
    for line in summary(settings.profile):
        _LOG.info("%s", line)
    host = settings.listen[0]
    host = f"[{host}]" if ":" in host else host
    _LOG.info("Listening on %s://%s:%d", "https" if settings.tls else "http", host, served.port)
    return served


def _listen_error(settings: Settings, error: OSError) -> str:
    """Return why it cannot listen, and what to do."""
    address = ADDRESS.show(settings.listen)
    if error.errno == errno.EADDRINUSE:
        return f"{address} is in use by another program: choose another with --listen"
    return f"Cannot listen on {address}: {error.strerror or error}"


async def _until_stopped(running: asyncio.Task[None]) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stopped.set)
    waiting = asyncio.create_task(stopped.wait())
    await asyncio.wait((waiting, running), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if running.done():
        running.result()


if __name__ == "__main__":
    sys.exit(main())
