"""The command line of `backtest`. Every command pays for it, so values that need a library are checked later."""

import argparse
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from crds.models import MODELS
from kubectl_headroom.backtest.durations import parse_span, parse_timestamp

HORIZONS_SECONDS: Final = (86_400,)  # how far the oracle looks ahead, by default [s]
TARGET_HORIZONS_SECONDS: Final = (3_600, 21_600, 86_400)  # the same with targets [s]
WARM_UP_SECONDS: Final = 86_400  # how much of the beginning is not counted, by default [s]
SEEDS: Final = (0, 1)  # seeds of the random packing, by default
SLOTS: Final = 12  # series at a time on a machine, with churn
_MOST_SEEDS: Final = 100
_MOST_MACHINES: Final = 100_000
_MOST_DIGITS: Final = 9

ANY: Final = "any"  # a value of --come-back-on
ALL, TARGET = "all", "target"  # kinds of --policies
_TARGETS: Final = MODELS["coincidence"]["targetViolationPercent"]

BASES: Final = ("requests", "limits")  # what pods can count with: those of `kubectl_headroom.backtest.sources.BASES`
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
TIMEOUT_SECONDS: Final = 30  # how long one answer may take, by default [s]
SOURCES: Final = ("trace", "prometheus")
"""Where usage comes from: the flags' names, and those of `kubectl_headroom.backtest.sources.SOURCES`."""


def span(text: str) -> int:
    """A time of whole seconds, above 0. [s]"""
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
    """A moment, see `kubectl_headroom.backtest.durations.parse_timestamp`. [seconds since 1970]"""
    try:
        return parse_timestamp(text, time.time())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def seeds(text: str) -> tuple[int, ...]:
    """Whole numbers with commas between, each once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(map(_is_whole, parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of seeds such as 0,1")
    result = tuple(dict.fromkeys(int(part) for part in parts))
    if len(result) > _MOST_SEEDS:
        raise argparse.ArgumentTypeError(f"at most {_MOST_SEEDS} seeds")
    return result


def policy_set(text: str) -> tuple[float, ...]:
    """Return the targets of `coincidence`, each once, the smallest first; none for all policies. [percent]"""
    kind, _, listed = text.partition(":")
    if text == ALL:
        return ()
    try:
        targets = tuple(sorted({float(part) for part in listed.split(",")}))
    except ValueError:
        targets = ()
    if kind != TARGET or not targets or not all(map(_TARGETS.allows, targets)):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not {ALL}, or targets of {_TARGETS} percent such as {TARGET}:0.5,1,1.5"
        )
    return targets


def machines(text: str) -> int:
    """A number of machines or slots."""
    if not (_is_whole(text) and 1 <= int(text) <= _MOST_MACHINES):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {_MOST_MACHINES}")
    return int(text)


def percent(text: str) -> float:
    """A share. [percent]"""
    try:
        result = float(text)
    except ValueError:
        result = -1.0
    if not 0.0 <= result <= 100.0:  # noqa: PLR2004 - percent
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 100")
    return result


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


_SOURCES: Final = (
    (
        "--trace",
        "DIR",
        "+",
        "folder with cpu_millicores.csv, mem_mib.csv, and vms.csv, or what headroom-agent db export wrote; .gz and .xz",
    ),
    ("--prometheus", "URL", None, "a Prometheus that scrapes kubelets and kube-state-metrics"),
)


def _file(about: str) -> dict[str, Any]:
    return {"metavar": "FILE", "default": "", "help": about}


def _repeated(metavar: str, about: str) -> dict[str, Any]:
    return {"metavar": metavar, "action": "append", "default": [], "help": f"{about}; can be repeated"}


def _of_type(kind: Callable[[str], Any], metavar: str, about: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"type": kind, "metavar": metavar, "help": about, **more}


_GROUPS: Final[Mapping[str, Mapping[str, dict[str, Any]]]] = {
    "more about the source": {
        "--from": _of_type(moment, "TIME", "begin here: 2026-01-31, 2026-01-31T12:00:00Z, 14d (ago)", dest="since"),
        "--until": _of_type(moment, "TIME", "end before this time (same forms)"),
        "--last": _of_type(span, "TIME", "only this much of the end (of Prometheus: 14d)"),
        "--pods": _repeated("FILE", "what kubectl get pods -A -o json printed, for sources that know no requests"),
        "--basis": {
            "choices": BASES,
            "default": BASES[0],
            "help": "what a pod counts with: its requests, else its limits; or its limits alone (default: requests)",
        },
    },
    "with --prometheus": {
        "--query": _repeated(
            "NAME=PROMQL",
            "other query; NAME is cpu, memory, cpu-requests, memory-requests, cpu-limits, memory-limits or pods",
        ),
        "--token-file": _file("bearer token"),
        "--ca-file": _file("authority that its certificate is checked by"),
        "--client-cert": _file("certificate to show"),
        "--client-key": _file("that certificate's key"),
        "--user": {"metavar": "NAME", "default": "", "help": "for a login with name and password"},
        "--password-file": _file("that password"),
        "--insecure": {"action": "store_true", "help": "do not check its certificate"},
        "--timeout": _of_type(span, "TIME", "of one answer (default: 30s)", default=TIMEOUT_SECONDS),
    },
    "policies (default: the one that the agent ships with)": {
        "--policy": _repeated(
            "POLICY",
            "a model with its parameters, such as coincidence:targetViolationPercent=2,margin=5,cold=12h; or default; "
            "or JSON of nodePredictPolicy",
        ),
        "--policies": _of_type(
            policy_set,
            "all|target:P[,P…]",
            "all: every model with its defaults, and the default policy; target:0.5,1,1.5,2,3: the model coincidence "
            "with each target, in percent of violations, and each horizon",
        ),
        "--policy-file": _repeated("FILE", "JSON of nodePredictPolicy, or a colocation config with one"),
    },
    "machines (default: where the series were; else a random packing)": {
        "--machines": _of_type(machines, "N", "pack the series on so many machines (default: 40, or a tenth of them)"),
        "--seed": _of_type(
            seeds,
            "S[,S…]",
            "seeds of the random packing; results are pooled over them (default: 0,1)",
            action="extend",
        ),
        "--churn-mean-life": _of_type(
            span,
            "TIME",
            "series come and go: exponential lives with this mean, such as 7d, in the slots of the machines",
        ),
        "--slots": _of_type(machines, "N", f"with churn: series at a time on a machine (default: {SLOTS})"),
        "--come-back": _of_type(
            percent,
            "PERCENT",
            "with churn: share of the series that come again as the workload that was there before (default: 0)",
        ),
        "--come-back-on": {
            "choices": ("same", ANY),
            "help": "with churn: on which machine they come again; on any, in the slot that becomes free next "
            "(default: same)",
        },
        "--workload-history": {
            "choices": ("cluster", "node", "none"),
            "default": "cluster",
            "help": "the history that a series has of its workload: that of its machine; cluster: while it is cold, "
            "also that of all machines (default: cluster)",
        },
    },
    "evaluation": {
        "--horizon": _of_type(
            spans,
            "TIME[,TIME…]",
            "how long a prediction has to hold, such as 1h,6h,24h (default: 24h; 1h,6h,24h with targets)",
        ),
        "--warm-up": _of_type(span, "TIME", "not counted at the beginning (default: 24h)", default=WARM_UP_SECONDS),
        "--resource": {
            "choices": ("cpu", "memory"),
            "action": "append",
            "help": "only this one (default: all that there is)",
        },
    },
}


def add(command: argparse.ArgumentParser) -> None:
    """Add everything but the form of the answer."""
    one = command.add_argument_group("where usage comes from, one of").add_mutually_exclusive_group(required=True)
    for flag, metavar, nargs, about in _SOURCES:
        one.add_argument(flag, metavar=metavar, nargs=nargs, help=about)
    for title, flags in _GROUPS.items():
        group = command.add_argument_group(title)
        for flag, more in flags.items():
            group.add_argument(flag, **more)
    picture = "also draw savings against violation; FILE ends in .png or .svg; needs matplotlib"
    command.add_argument("--plot", metavar="FILE", type=Path, help=picture)
