"""The command line: what can be typed, with help."""

import argparse
from typing import Final, NoReturn, TypeAlias

from cli.errors import USAGE

NAMESPACE: Final = "headroom-system"
"""Namespace of Headroom, by convention."""
CONFIG_NAME: Final = "slo-controller-config"
"""Name of the colocation ConfigMap."""

_MOST_DIGITS: Final = 9
_EPILOG: Final = (
    "exit codes: 0 done, 1 the cluster has not got what was asked for, 2 wrong command line, "
    "3 no login or no API server"
)

_Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"  # noqa: SLF001 - its only name


class _Parser(argparse.ArgumentParser):
    """Complains in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"kubectl headroom: {message}; see {self.prog} --help\n")


def parser() -> _Parser:
    """The parser of the whole command line."""
    login = _login(argparse.SUPPRESS)  # what was given before the command must not be forgotten after it
    output = _Parser(add_help=False)
    output.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")

    root = _Parser(
        prog="kubectl headroom",
        parents=[_login(None)],
        description="What nodes and pods really use, what of the rest is sold as Mid resources, and why.",
        epilog=_EPILOG,
    )
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_top(commands, [login, output])
    _add_explain(commands, [login])
    _add_config(commands, login, output)
    _add_uninstall(commands, [login, output])
    _add_shadow(commands, [login, output])
    _add_simulate(commands, [login])
    _add_quota(commands, [login])
    _add_doctor(commands, [login])
    commands.add_parser("version", help="print the version of this command", parents=[output])
    return root


def _login(default: str | None) -> _Parser:
    login = _Parser(add_help=False)
    login.add_argument(
        "--kubeconfig", metavar="FILE", default=default, help="kubeconfig file (default: as kubectl does)"
    )
    login.add_argument(
        "--context", metavar="NAME", default=default, help="context of the kubeconfig (default: its current one)"
    )
    return login


def _add_top(commands: _Commands, parents: list[_Parser]) -> None:
    about = "CPU and memory in use, predicted Prod peak, reclaimable and Mid resources"
    top = commands.add_parser("top", help=about, description=f"{about}.", parents=parents)
    top.add_argument(
        "what", nargs="?", choices=("nodes", "node", "pods", "pod"), default="nodes", help="default: nodes"
    )
    top.add_argument("-n", "--namespace", metavar="NAME", help="pods: only of this namespace (default: all)")
    top.add_argument("--node", metavar="NAME", help="only this node, or pods on it")


def _add_shadow(commands: _Commands, parents: list[_Parser]) -> None:
    about = "what nodes in shadow mode would have sold, and how often that would have been too much"
    shadow = commands.add_parser("shadow", help=about, description=f"{about.capitalize()}.", parents=parents)
    shadow.add_argument("-l", "--selector", metavar="SELECTOR", help="only nodes with these labels, as of kubectl")


def _add_simulate(commands: _Commands, parents: list[_Parser]) -> None:
    about = (
        "what our scheduler plugins would say of a pod: each node's verdict, scores, rank and the numbers behind them"
    )
    simulate = commands.add_parser("simulate", help=about, description=f"{about.capitalize()}.", parents=parents)
    simulate.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table", help="default: table")
    simulate.add_argument("what", choices=("pod",), help="the kind of object")
    simulate.add_argument(
        "source",
        metavar="FILE|NAME",
        help="manifest of pods, Deployments, StatefulSets, DaemonSets, Jobs or CronJobs, - reads standard input; "
        "or the name of a pod of the cluster",
    )
    simulate.add_argument("-n", "--namespace", metavar="NAME", default="default", help="of the pod (default: default)")
    _add_profile(simulate)
    simulate.add_argument("--node", metavar="NAME", help="only this node, with every number")
    simulate.add_argument(
        "--limit", metavar="N", type=_count, default=20, help="list so many nodes; 0 lists all (default: 20)"
    )


def _add_quota(commands: _Commands, parents: list[_Parser]) -> None:
    about = (
        "ElasticQuotas: what is guaranteed, used, borrowed, lent and waited for; why a pod waits and who would be "
        "evicted for it; whether the books are right"
    )
    quota = commands.add_parser("quota", help=about, description=f"{about}.", parents=parents)
    quota.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table", help="default: table")
    quota.add_argument(
        "what",
        nargs="?",
        choices=("list", "explain", "verify"),
        default="list",
        help="list: a table; explain POD: why a pod waits; verify: what is wrong, exit code 1 if anything is "
        "(default: list)",
    )
    quota.add_argument("pod", metavar="POD", nargs="?", help="explain: name of the pod")
    place = quota.add_mutually_exclusive_group()
    place.add_argument(
        "-n", "--namespace", metavar="NAME", help="list: only of this namespace; explain: of the pod (default: default)"
    )
    place.add_argument(
        "-A", "--all-namespaces", action="store_true", help="list: of all namespaces, which is the default"
    )
    _add_profile(quota)


def _add_profile(command: _Parser) -> None:
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
        default=NAMESPACE,
        help=f"namespace of Headroom, where that ConfigMap is (default: {NAMESPACE})",
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of nodes")
    return int(text)


def _add_explain(commands: _Commands, parents: list[_Parser]) -> None:
    about = "every term of a node's Mid resources, its inputs and their age, and why a number is zero"
    explain = commands.add_parser("explain", help=about, description=f"{about.capitalize()}.", parents=parents)
    explain.add_argument(
        "-o", "--output", choices=("table", "json", "yaml"), default="table", help="json and yaml have the same content"
    )
    explain.add_argument("what", choices=("node",), help="the kind of object")
    explain.add_argument("name", help="name of the node")
    _add_place(explain)
    explain.add_argument(
        "--set",
        metavar="SETTING=VALUE",
        action="append",
        default=[],
        help="what if this setting were different here, such as midUnallocatedPercent=20 or midEviction.mode=on; "
        "can be repeated; nothing is written",
    )
    explain.add_argument(
        "--config",
        metavar="FILE",
        help="what if this were the colocation config: its JSON, or a ConfigMap's manifest; - reads standard input",
    )


def _add_config(commands: _Commands, login: _Parser, output: _Parser) -> None:
    about = "check a colocation config, or see what it would change, before it is stored"
    config = commands.add_parser("config", help=about, description=f"{about.capitalize()}.")
    actions = config.add_subparsers(dest="action", required=True, metavar="ACTION")
    about = "every error and warning, as the admission webhook and the manager say them; needs no cluster"
    check = actions.add_parser("check", help=about, description=f"{about.capitalize()}.", parents=[output])
    about = "which nodes of the cluster would change, and how their strategy differs"
    diff = actions.add_parser("diff", help=about, description=f"{about.capitalize()}.", parents=[login, output])
    _add_place(diff)
    for action in (check, diff):
        action.add_argument(
            "file", metavar="FILE", help="JSON of colocation-config, or a ConfigMap's manifest; - reads standard input"
        )


def _add_uninstall(commands: _Commands, parents: list[_Parser]) -> None:
    about = "stop Headroom and take away what it has written, as `helm uninstall` does first"
    uninstall = commands.add_parser("uninstall", help=about, description=f"{about.capitalize()}.", parents=parents)
    uninstall.add_argument("--dry-run", action="store_true", help="only list what would be changed or removed")
    uninstall.add_argument(
        "--force", action="store_true", help="also take Mid resources from Nodes on which Mid pods still run"
    )
    uninstall.add_argument(
        "--stop-selling",
        action="store_true",
        help="where Mid pods still run, take away all but what they bought (default: refuse, and change nothing)",
    )
    uninstall.add_argument(
        "--delete-config", action="store_true", help="delete the colocation ConfigMap too, if the chart made it"
    )
    uninstall.add_argument(
        "--delete-priority-classes",
        action="store_true",
        help="delete the PriorityClasses too that the chart made and that no pod names",
    )
    _add_place(uninstall)


def _add_doctor(commands: _Commands, parents: list[_Parser]) -> None:
    about = "what is wrong with the installation, or in the way of one, and what mends it; exit code 1 with errors"
    doctor = commands.add_parser("doctor", help=about, description=f"{about.capitalize()}.", parents=parents)
    doctor.add_argument(
        "-o",
        "--output",
        choices=("table", "wide", "json", "yaml"),
        default="table",
        help="wide: also the page that says more, and all names (default: table)",
    )
    doctor.add_argument("--preflight", action="store_true", help="whether Headroom can be installed here")
    _add_place(doctor)


def _add_place(command: _Parser) -> None:
    command.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        default=NAMESPACE,
        help=f"namespace of Headroom, where its ConfigMap is (default: {NAMESPACE})",
    )
    command.add_argument(
        "--config-name", metavar="NAME", default=CONFIG_NAME, help=f"name of that ConfigMap (default: {CONFIG_NAME})"
    )
