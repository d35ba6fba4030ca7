"""Composition root of headroom-manager: flags -> settings -> one clear line if something is missing -> run."""

import asyncio
import logging
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from headroom.kube import ApiError, ApiServer, ApiUnavailable, Connection, LoginError, connect
from headroom.runtime import logs
from headroom.runtime.backoff import Backoff
from headroom.runtime.options import WrongSetting
from manager.context import Context
from manager.http import ListenError
from manager.metrics import ManagerMetrics, MetricsServer
from manager.operator import stop_on_signals
from manager.runner import serve
from manager.settings import PROG, Settings, load

if TYPE_CHECKING:
    from manager.web.server import UiServer
    from manager.webhook.service import Webhook

_LOG: Final = logging.getLogger("manager")
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 10.0
_SWITCH_SECONDS: Final = 0.0005
"""The interval at which a thread that computes, such as /metrics of thousands of nodes, yields to the event loop. The
loop waits for that at each of its reads and writes, dozens of times a pass. [s]"""


def _set_up_logging(settings: Settings) -> None:
    # Tracebacks of kopf and asyncio are about the API server, not about a fault of ours.
    logs.set_up(settings.log_format, settings.log_level, without_traceback=("kopf", "asyncio"))
    if settings.log_level == "debug":
        return
    logging.getLogger("kopf").setLevel(max(logging.WARNING, logging.getLogger().level))
    # Retries of its watches are many lines about the one outage that we report ourselves, and so is its end.
    for name in ("kopf._cogs.clients", "kopf._core.reactor"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


async def _heartbeat(context: Context) -> None:
    while True:
        context.progress.heartbeat = time.monotonic()
        await asyncio.sleep(1.0)


async def _first_contact(api: ApiServer, context: Context, stop: asyncio.Event) -> None:
    """Wait until the API server answers, or until `stop` is set."""
    origin, logged = api.connection.origin or "the service account", ""
    backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
    while not stop.is_set():
        try:
            await api.get("/version")
        except (ApiUnavailable, ApiError) as error:
            context.progress.problem = str(error)
        else:
            context.progress.problem = ""
            return
        if context.progress.problem != logged:
            logged = context.progress.problem
            _LOG.warning("Waiting for the API server: %s; if this stays, check the login in %s", logged, origin)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), backoff.failed())


async def _run(settings: Settings, connection: Connection, context: Context, ui: "UiServer | None") -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    alongside = [asyncio.create_task(_heartbeat(context))]
    async with ApiServer(connection, user_agent=settings.user_agent) as api:
        if ui is not None:
            alongside.append(asyncio.create_task(ui.keep(api)))
        _LOG.info("Managing %s with ConfigMap %s/%s", connection.server, settings.namespace, settings.config_name)
        await _first_contact(api, context, stop)
        await serve(api, context, stop)
    for task in alongside:
        task.cancel()
    asyncio.get_running_loop().set_exception_handler(_at_the_end)
    _LOG.info("Stopped")


def _at_the_end(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Pass over generators that kopf leaves behind.

    asyncio closes them all at once, one inside another, and the inner one is then busy when its own turn comes.
    """
    if "asyncgen" in context:
        _LOG.debug("%s", context.get("message"))
    else:
        loop.default_exception_handler(context)


def _fail(line: str) -> int:
    print(f"{PROG}: {line}", file=sys.stderr)
    return 1


def _webhook(settings: Settings, metrics: ManagerMetrics) -> "Webhook | None":
    if not settings.webhook.listen:
        return None
    from manager.webhook.service import Webhook  # noqa: PLC0415 - its cryptography costs memory

    return Webhook(settings, metrics)


def _ui(settings: Settings, context: Context) -> "UiServer | None":
    if not settings.ui_listen:
        return None
    from manager.web.server import UiServer  # noqa: PLC0415 - its numpy costs memory

    return UiServer(settings.ui_listen, context)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the manager; the exit code is 0 after SIGTERM, 1 when it could not start, 2 for a wrong flag."""
    try:
        settings = load(arguments)
    except WrongSetting as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return 2
    _set_up_logging(settings)
    metrics = ManagerMetrics()
    context = Context(settings, metrics)
    try:
        connection = connect(settings.kubeconfig)
        server = MetricsServer(settings.listen, metrics, context.progress.health)
        context.webhook = _webhook(settings, metrics)
        ui = _ui(settings, context)
    except (LoginError, ListenError) as error:
        return _fail(str(error))
    servers = [server, *([ui] if ui else [])]
    for listener in servers:
        listener.start()
    try:
        sys.setswitchinterval(_SWITCH_SECONDS)
        asyncio.run(_run(settings, connection, context, ui))
    finally:
        for listener in servers:
            listener.stop()
        if context.webhook is not None:
            context.webhook.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
