"""The parts of the command line that several commands share: login, output, places, profiles, watching."""

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from crds.duration import DurationError, parse_duration
from headroom.runtime.removed import removed
from headroom.runtime.sanitize import printable
from kubectl_headroom.errors import USAGE, CommandError
from kubectl_headroom.output import CHOICES, TABLE, form
from kubectl_headroom.targets import name

NAMESPACE: Final = "headroom-system"  # namespace of Headroom, by convention
CONFIG_NAME: Final = "slo-controller-config"  # name of the colocation ConfigMap

_INVALID_CHOICE: Final = re.compile(r"argument (\S+): invalid choice: '([^']*)'")  # as argparse words it
_COMMANDS: Final = ("COMMAND", "ACTION")  # the places of commands in argparse's messages
_MOST_DIGITS: Final = 9
_SHORTEST_INTERVAL_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 86_400.0


class Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line, with the command that shows the help."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - as the base class takes them
        super().__init__(allow_abbrev=False, **settings)
        self.kinds: Sequence[str] = ()  # the possible types of its words, for completion
        self._settle: Callable[[argparse.Namespace], None] | None = None

    def add_words(
        self, dest: str, kinds: Sequence[str], settle: Callable[[argparse.Namespace], None], metavar: str, about: str
    ) -> None:
        """Add an argument for all words without the flags and their values, anywhere on the command line.

        Args:
            dest: the option that has them.
            kinds: the possible types, for completion.
            settle: replaces them by options; raises `ArgumentTypeError` when they are wrong.
            metavar: how the help calls them.
            about: the help.
        """
        self.add_argument(dest, nargs="*", metavar=metavar, help=about)
        self.kinds, self._settle = kinds, settle
        self._dest = dest

    def parse_known_args(self, *args: Any, **named: Any) -> tuple[argparse.Namespace, list[str]]:  # type: ignore[override]  # noqa: ANN401 - as above
        """Parse all words; a command without its subcommand prints its help and exits with code 0."""
        options, rest = super().parse_known_args(*args, **named)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and getattr(options, action.dest) is None and not rest:  # noqa: SLF001 - its only name
                self.print_help()
                self.exit()
        flags = [word for word in rest if word.startswith("-") and word != "-"]
        if self._settle is not None:
            getattr(options, self._dest).extend(word for word in rest if word not in flags)
            rest = flags
        if rest:
            self.error(f"unknown flag: {flags[0]}" if flags else f"unexpected argument: {rest[0]}")
        if self._settle is not None:
            try:
                self._settle(options)
            except argparse.ArgumentTypeError as error:
                self.error(str(error))
        return options, rest

    def error(self, message: str) -> NoReturn:
        """Exit with code 2, after one line with the fault and the help command.

        Raises:
            CommandError: the message is about something that was removed.
        """
        if choice := _INVALID_CHOICE.match(message):
            argument, word = choice.groups()
            option = [argument.partition("/")[0]] if argument.startswith("-") else []
            if sentence := removed("command", " ".join([*self.prog.split()[2:], *option, word])):
                raise CommandError(sentence, USAGE)
            if argument in _COMMANDS:
                message = f"unknown command: {word}"
        self.exit(USAGE, f"kubectl headroom: {printable(message)}. See '{self.prog} --help'.\n")


def login(*, root: bool = False) -> Parser:
    """Add the options for the cluster and the user.

    Args:
        root: for options before the command, which must not be overwritten by defaults after it.
    """
    default = None if root else argparse.SUPPRESS
    parser = Parser(add_help=False)
    parser.add_argument(
        "--kubeconfig", metavar="FILE", default=default, help="kubeconfig file (default: as kubectl does)"
    )
    parser.add_argument(
        "--context", metavar="NAME", default=default, help="context of the kubeconfig (default: its current one)"
    )
    parser.add_argument(
        "--as", dest="acts_as", metavar="USER", default=default, help="act as this user or service account"
    )
    parser.add_argument(
        "--as-group",
        dest="acts_as_groups",
        metavar="GROUP",
        action="append",
        default=default,
        help="act as a member of this group; can be repeated",
    )
    parser.add_argument("--cluster", metavar="NAME", default=default, help="cluster of the kubeconfig")
    parser.add_argument("--user", metavar="NAME", default=default, help="user of the kubeconfig")
    parser.add_argument(
        *("-s", "--server"), metavar="URL", default=default, help="address of the API server, such as https://host:6443"
    )
    parser.add_argument("--token", default=default, help="bearer token for the API server")
    parser.add_argument(
        "--insecure-skip-tls-verify",
        dest="insecure",
        action="store_true",
        default=default,
        help="do not verify the API server's certificate, so that the connection is not secure",
    )
    parser.add_argument(
        *("-v", "--v"),
        dest="verbosity",
        metavar="LEVEL",
        type=int,
        default=default,
        help="log level; from 6 each request with its status and time, on standard error",
    )
    parser.add_argument(
        "--request-timeout",
        metavar="TIME",
        type=seconds,
        default=default,
        help="give up a request after this time, such as 5s; 0: never (default: 30s)",
    )
    return parser


def output() -> Parser:
    """The form of the answer."""
    parser = Parser(add_help=False)
    parser.add_argument(
        "-o",
        "--output",
        type=form,
        choices=CHOICES,
        default=TABLE,
        metavar="FORMAT",
        help="table, wide (more columns, nothing shortened), json or yaml (the same content), name (TYPE/NAME), "
        "jsonpath=TEMPLATE or custom-columns=TITLE:PATH,... as of kubectl (default: table)",
    )
    return parser


def add_no_headers(command: argparse.ArgumentParser) -> None:
    """Add the option for tables of rows alone."""
    command.add_argument(
        "--no-headers", dest="headers", action="store_false", help="leave out the titles of columns, and the sums"
    )


def watch() -> Parser:
    """Options of `--watch`."""
    parser = Parser(add_help=False)
    parser.add_argument("-w", "--watch", action="store_true", help="repeat until Ctrl-C")
    parser.add_argument(
        "--interval",
        metavar="TIME",
        type=interval,
        default=None,
        help="with --watch: time between an answer and the next question, such as 30s (default: 10s)",
    )
    return parser


def add_place(command: argparse.ArgumentParser) -> None:
    add_namespace(command)
    add_config_name(command)


def add_namespace(command: argparse.ArgumentParser) -> None:
    """Add the option for Headroom's namespace."""
    command.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        type=name,
        default=NAMESPACE,
        help=f"namespace of Headroom, where its ConfigMap is (default: {NAMESPACE})",
    )


def add_config_name(command: argparse.ArgumentParser) -> None:
    """Add the option for the name of the colocation ConfigMap."""
    command.add_argument(
        "--config-name",
        metavar="NAME",
        type=name,
        default=CONFIG_NAME,
        help=f"name of that ConfigMap (default: {CONFIG_NAME})",
    )


def add_profile(command: argparse.ArgumentParser) -> None:
    """Add the options for the profile of the scheduler's plugins."""
    command.add_argument(
        "--profile",
        metavar="FILE",
        help="profile to try (default: that of ConfigMap headroom-scheduler, else the one that ships)",
    )
    command.add_argument(
        "--scheduler-name", metavar="NAME", help="which of several profiles of a KubeSchedulerConfiguration"
    )
    command.add_argument(
        "--headroom-namespace",
        metavar="NAME",
        type=name,
        default=NAMESPACE,
        help=f"namespace of Headroom, where that ConfigMap is (default: {NAMESPACE})",
    )


def count(text: str) -> int:
    """A number of nodes.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not (text.isascii() and text.isdecimal()) or len(text) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of nodes")
    return int(text)


def seconds(text: str) -> float:
    """A time as kubectl takes it: "30s", "1m30s", or a plain number of seconds. [s]

    Raises:
        ArgumentTypeError: it is none.
    """
    plain = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    try:
        result = float(text) if plain else parse_duration(text)
    except DurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not 0 <= result <= _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time between 0s and 24h")
    return result


def interval(text: str) -> float:
    """A time between two questions. [s]

    Raises:
        ArgumentTypeError: it is none, or shorter than a second, which no API server deserves.
    """
    result = seconds(text)
    if result < _SHORTEST_INTERVAL_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is shorter than a second")
    return result
