"""The command line of `backtest`. Every command pays for it, so values that need a library are checked later."""

import argparse
import time
from pathlib import Path
from typing import Final

from headroom.backtest.durations import parse_span, parse_timestamp
from headroom.cli.output import FORMATS, TABLE
from headroom.cli.parsers import Parser

CSV: Final = "csv"
"""A row for each result, for spreadsheets."""
HORIZON_SECONDS: Final = 86_400
"""How far the oracle looks ahead, by default. [s]"""
WARM_UP_SECONDS: Final = 86_400
"""How much of the beginning is not counted, by default. [s]"""
SEEDS: Final = (0, 1)
"""Seeds of the random packing, by default."""
SLOTS: Final = 12
"""Series at a time on a machine, with churn."""
_MOST_SEEDS: Final = 100
_MOST_MACHINES: Final = 100_000
_MOST_DIGITS: Final = 9

BASES: Final = ("requests", "limits")
"""What pods can count with: those of `headroom.backtest.sources.BASES`."""
OF_PROMETHEUS: Final = (
    "query",
    "token_file",
    "ca_file",
    "client_cert",
    "client_key",
    "user",
    "password_file",
    "insecure",
)
"""Options that no other source has."""
TIMEOUT_SECONDS: Final = 30
"""How long one answer may take, by default. [s]"""
SOURCES: Final = ("trace", "db", "prometheus", "nodemetrics")
"""Where usage comes from: the flags' names, and those of `headroom.backtest.sources.SOURCES`."""


def add(command: argparse.ArgumentParser) -> None:
    """Add everything but the form of the answer."""
    _add_sources(command)
    _add_policies(command)
    _add_placement(command)
    evaluated = command.add_argument_group("what is evaluated")
    evaluated.add_argument(
        "--horizon",
        metavar="TIME[,TIME…]",
        type=spans,
        default=(HORIZON_SECONDS,),
        help="how long a prediction has to hold, such as 1h,6h,24h (default: 24h)",
    )
    evaluated.add_argument(
        "--warm-up",
        metavar="TIME",
        type=span,
        default=WARM_UP_SECONDS,
        help="not counted at the beginning (default: 24h)",
    )
    evaluated.add_argument(
        "--resource", choices=("cpu", "memory"), action="append", help="only this one (default: all that there is)"
    )
    command.add_argument(
        "--plot",
        metavar="FILE",
        type=Path,
        help="also draw violation against savings, and both by machine; FILE ends in .png or .svg; needs matplotlib",
    )


def output() -> Parser:
    """The form of the answer: as everywhere, and CSV."""
    parser = Parser(add_help=False)
    parser.add_argument(
        "-o",
        "--output",
        choices=(*FORMATS, CSV),
        default=TABLE,
        help="wide: more columns and what each policy is; json and yaml have the same content; csv: a row for each "
        "result (default: table)",
    )
    return parser


def _add_sources(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("where usage comes from, one of")
    one = group.add_mutually_exclusive_group(required=True)
    one.add_argument(
        "--trace",
        metavar="DIR",
        nargs="+",
        help="folder with cpu_millicores.csv, mem_mib.csv and vms.csv, or with PlanetLab's days; .gz and .xz, too",
    )
    one.add_argument(
        "--db",
        metavar="FILE",
        nargs="+",
        help="agents' databases, their folders, or what headroom-agent db export wrote",
    )
    one.add_argument("--prometheus", metavar="URL", help="a Prometheus that scrapes kubelets and kube-state-metrics")
    one.add_argument(
        "--nodemetrics", metavar="FILE", nargs="+", help="what kubectl get nodemetrics -o json printed, again and again"
    )
    more = command.add_argument_group("more about the source")
    more.add_argument(
        "--from",
        dest="since",
        metavar="TIME",
        type=moment,
        help="begin here: 2026-01-31, 2026-01-31T12:00:00Z, 14d (ago)",
    )
    more.add_argument("--until", metavar="TIME", type=moment, help="end before this, likewise")
    more.add_argument(
        "--last", metavar="TIME", type=span, help="only the last so long of what there is (of Prometheus: 14d)"
    )
    more.add_argument(
        "--pods",
        metavar="FILE",
        action="append",
        default=[],
        help="what kubectl get pods -A -o json printed, for sources that know no requests; can be repeated",
    )
    more.add_argument(
        "--basis",
        choices=BASES,
        default=BASES[0],
        help="what a pod counts with: its requests, else its limits; or its limits alone (default: requests)",
    )
    _add_prometheus(command.add_argument_group("with --prometheus"))


def _add_prometheus(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--query",
        metavar="NAME=PROMQL",
        action="append",
        default=[],
        help="other query; NAME is cpu, memory, cpu-requests, memory-requests, cpu-limits, memory-limits or pods; "
        "can be repeated",
    )
    group.add_argument("--token-file", metavar="FILE", default="", help="bearer token")
    group.add_argument("--ca-file", metavar="FILE", default="", help="authority that its certificate is checked by")
    group.add_argument("--client-cert", metavar="FILE", default="", help="certificate to show")
    group.add_argument("--client-key", metavar="FILE", default="", help="that certificate's key")
    group.add_argument("--user", metavar="NAME", default="", help="for a login with name and password")
    group.add_argument("--password-file", metavar="FILE", default="", help="that password")
    group.add_argument("--insecure", action="store_true", help="do not check its certificate")
    group.add_argument(
        "--timeout", metavar="TIME", type=span, default=TIMEOUT_SECONDS, help="of one answer (default: 30s)"
    )


def _add_policies(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("policies (default: the one that the agent ships with)")
    group.add_argument(
        "--policy",
        metavar="POLICY",
        action="append",
        default=[],
        help="a model with its parameters, such as diversity:windowDays=7,lambdaMin=0.4,margin=0,cold=12h or "
        "max(nsigma-v2:n=3,diversity), or default; can be repeated",
    )
    group.add_argument("--policies", choices=("all",), help="every model as it is by default, and the default policy")
    group.add_argument(
        "--policy-file",
        metavar="FILE",
        action="append",
        default=[],
        help="JSON of nodePredictPolicy, or a colocation config with one; can be repeated",
    )


def _add_placement(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("machines (default: where the series were; else a random packing)")
    group.add_argument(
        "--machines",
        metavar="N",
        type=machines,
        help="pack the series on so many machines (default: 40, or a tenth of them)",
    )
    group.add_argument(
        "--seed",
        metavar="S[,S…]",
        type=seeds,
        action="extend",
        help="seeds of the random packing; results are pooled over them (default: 0,1)",
    )
    group.add_argument(
        "--churn-mean-life",
        metavar="TIME",
        type=span,
        help="series come and go: exponential lives with this mean, such as 7d, in the slots of the machines",
    )
    group.add_argument(
        "--slots", metavar="N", type=machines, help=f"with churn: series at a time on a machine (default: {SLOTS})"
    )
    group.add_argument(
        "--come-back",
        metavar="PERCENT",
        type=percent,
        help="with churn: share of the series that come again as the workload that was there before (default: 0)",
    )
    group.add_argument(
        "--no-workload-history",
        action="store_true",
        help="a series of a known workload begins without that workload's history, unlike in the agent",
    )


def span(text: str) -> int:
    """A time of whole seconds, above 0. [s]

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        seconds = round(parse_span(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if seconds < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time of at least a second")
    return seconds


def spans(text: str) -> tuple[int, ...]:
    """Times with commas between, each once, the shortest first. [s]"""
    return tuple(sorted({span(part) for part in text.split(",")}))


def moment(text: str) -> float:
    """A moment, see `headroom.backtest.durations.parse_timestamp`. [seconds since 1970]"""
    try:
        return parse_timestamp(text, time.time())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def seeds(text: str) -> tuple[int, ...]:
    """Whole numbers with commas between, each once.

    Raises:
        ArgumentTypeError: one is none.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) <= _MOST_DIGITS for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of seeds such as 0,1")
    found = tuple(dict.fromkeys(int(part) for part in parts))
    if len(found) > _MOST_SEEDS:
        raise argparse.ArgumentTypeError(f"at most {_MOST_SEEDS} seeds")
    return found


def machines(text: str) -> int:
    """A number of machines or slots.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and 1 <= int(text) <= _MOST_MACHINES):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {_MOST_MACHINES}")
    return int(text)


def percent(text: str) -> float:
    """A share. [percent]

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0.0 <= found <= 100.0:  # noqa: PLR2004 - percent
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 100")
    return found
