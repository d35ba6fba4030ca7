"""Composition root of headroom-manager: flags -> settings -> one clear line if something is missing -> run."""

import argparse
import asyncio
import logging
import os
import secrets
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

from crds import shadow_accounts
from crds.names import CONFIG_MAP_NAME, LAST_GOOD_NAME
from headroom.kube import ApiError, ApiServer, ApiUnavailable, Connection, LoginError, connect
from headroom.kube.lease import LeaderSettings
from headroom.runtime import logs
from headroom.runtime.backoff import Backoff
from headroom.runtime.text import joined
from manager.context import Context
from manager.http import ListenError
from manager.metrics import ManagerMetrics, MetricsServer
from manager.mid import node_filter
from manager.mid.node_filter import NodeFilter
from manager.operator import stop_on_signals
from manager.runner import serve
from manager.settings import DEFAULT_NAMESPACE, Settings, WebhookSettings

if TYPE_CHECKING:
    from manager.web.server import UiServer
    from manager.webhook.service import Webhook

_LOG: Final = logging.getLogger("manager")
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 10.0
_SWITCH_SECONDS: Final = 0.0005
"""How soon a thread that computes beside the event loop, as for /metrics of thousands of nodes, gives way to it. The
loop waits for that at each of its reads and writes, dozens of times a pass. [s]"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def parse_flags(arguments: Sequence[str]) -> Settings:
    """Settings from the command line; a wrong flag ends the process with one line."""
    parser = _Parser(
        prog="headroom-manager", description="Publishes on each Node what Prod pods requested and will not use."
    )
    parser.add_argument("--kubeconfig", help="kubeconfig file; default: the pod's service account, else $KUBECONFIG")
    parser.add_argument(
        "--namespace",
        default=os.environ.get("POD_NAMESPACE") or DEFAULT_NAMESPACE,
        help="namespace of the ConfigMap and the Lease; default: $POD_NAMESPACE, else %(default)s",
    )
    parser.add_argument("--config-name", default=CONFIG_MAP_NAME, help="name of the ConfigMap; default: %(default)s")
    parser.add_argument(
        "--listen", default=":8080", help="host:port of /metrics, /healthz, /readyz and /livez; default: %(default)s"
    )
    parser.add_argument(
        "--ui-listen",
        default="",
        metavar="ADDRESS",
        help="host:port of the web page /ui, which is read-only and needs no login: 127.0.0.1:8081; default: no page",
    )
    parser.add_argument(
        "--leader-elect", action="store_true", help="take part in leader election; needed with more than one replica"
    )
    parser.add_argument(
        "--exclude-nodes",
        metavar="SELECTOR",
        type=_exclusion,
        default=NodeFilter(),
        help="label selector, as of kubectl -l, of nodes that get no NodeMetric and publish nothing, "
        f"such as virtual ones; empty: none; default: {node_filter.DEFAULT}",
    )
    parser.add_argument(
        "--webhook-listen",
        default="",
        metavar="ADDRESS",
        help="host:port at which API servers ask whether an edit of the ConfigMap is right; default: no webhook",
    )
    _add_choice(
        parser, "--webhook-certificates", ("self", "cert-manager"), "self", "who makes the webhook's certificates"
    )
    _add_choice(parser, "--log-format", logs.FORMS, "text", "form of the log")
    _add_choice(parser, "--log-level", logs.LEVELS, "info", "the least severe message that is logged")
    flags = parser.parse_args(joined(arguments))
    _check_names(parser, flags)
    return Settings(
        kubeconfig=flags.kubeconfig,
        namespace=flags.namespace,
        config_name=flags.config_name,
        listen=flags.listen,
        log_format=flags.log_format,
        log_level=flags.log_level,
        exclude_nodes=flags.exclude_nodes,
        leader=LeaderSettings(enabled=flags.leader_elect),
        ui_listen=flags.ui_listen,
        webhook=WebhookSettings(listen=flags.webhook_listen, certificates=flags.webhook_certificates),
        identity=f"{os.environ.get('POD_NAME') or socket.gethostname()}_{secrets.token_hex(4)}",
    )


def _check_names(parser: argparse.ArgumentParser, flags: argparse.Namespace) -> None:
    for name in ("namespace", "config_name"):
        if not getattr(flags, name) or "/" in getattr(flags, name):
            parser.error(f"--{name.replace('_', '-')} must be a name, got {getattr(flags, name)!r}")
    if flags.config_name in {LAST_GOOD_NAME, *shadow_accounts.NAMES}:
        parser.error(f"--config-name {flags.config_name} is a ConfigMap that the manager itself writes")


def _exclusion(text: str) -> NodeFilter:
    try:
        return NodeFilter.of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _add_choice(parser: argparse.ArgumentParser, flag: str, allowed: Sequence[str], default: str, text: str) -> None:
    """A flag with a few values, which may also be an environment variable."""
    variable = f"HEADROOM_MANAGER_{flag.strip('-').replace('-', '_').upper()}"
    listed = f"{', '.join(allowed[:-1])} or {allowed[-1]}"

    def choice(given: str) -> str:
        if given not in allowed:
            raise argparse.ArgumentTypeError(f"must be {listed}, got {given!r}")
        return given

    parser.add_argument(
        flag,
        metavar=flag.rpartition("-")[2].upper(),
        type=choice,
        default=os.environ.get(variable) or default,
        help=f"{text}: {listed}; default: ${variable}, else {default}",
    )


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
            context.progress.trouble = str(error)
        else:
            context.progress.trouble = ""
            return
        if context.progress.trouble != logged:
            logged = context.progress.trouble
            _LOG.warning("Waiting for the API server: %s; if this stays, check the login in %s", logged, origin)
        with suppress(TimeoutError):
            async with asyncio.timeout(backoff.failed()):
                await stop.wait()


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
    for each in alongside:
        each.cancel()
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
    print(f"headroom-manager: {line}", file=sys.stderr)
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
    settings = parse_flags(sys.argv[1:] if arguments is None else arguments)
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
    for each in servers:
        each.start()
    try:
        sys.setswitchinterval(_SWITCH_SECONDS)
        asyncio.run(_run(settings, connection, context, ui))
    finally:
        for each in servers:
            each.stop()
        if context.webhook is not None:
            context.webhook.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
