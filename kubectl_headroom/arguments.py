"""The command line: what can be typed, with help."""

import argparse
from importlib import metadata
from typing import Final, TypeAlias

from kubectl_headroom import parsers, targets
from kubectl_headroom.backtest import options as backtest
from kubectl_headroom.parsers import Parser

_EPILOG: Final = (
    "exit codes: 0 done, 1 the requested object is absent or has a fault, "
    "2 wrong command line or file, 3 no login or no API server, 130 interrupted"
)

_EXPLAINED: Final = (
    *(targets.NODE, targets.POD, targets.QUOTA),
    *(kind for kind in targets.WORKLOADS if kind != "cronjob"),  # its pods are of its Jobs
)
_Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  # noqa: SLF001 - its only name


def parser() -> Parser:
    """The parser of the whole command line."""
    login, output = parsers.login(), parsers.output()
    root = Parser(
        prog="kubectl headroom",
        parents=[parsers.login(root=True)],
        description="Shows the real usage of nodes and pods, their Mid resources, and the reasons.",
        epilog=_EPILOG,
    )
    root.add_argument("--version", action="version", version=f"%(prog)s {metadata.version('kube-headroom')}")
    commands = root.add_subparsers(dest="command", metavar="COMMAND")
    _add_top(commands, [login, output, parsers.watch()])
    _add_explain(commands, [login, output, parsers.watch()])
    _add_config(commands, login, output)
    _add_shadow(commands, [login, output])
    _add_simulate(commands, [login, output])
    _add_quota(commands, [login, output, parsers.watch()])
    _add_backtest(commands, [output])
    _add_profile(commands, login, output)
    _add_doctor(commands, [login, output])
    commands.add_parser("version", help="print the version of this command", parents=[output])
    about = "help about a command"
    help_ = commands.add_parser("help", help=about, description=_sentence(about))
    help_.add_argument("words", nargs="*", metavar="COMMAND", help="such as top or config check")
    return root


def _sentence(about: str) -> str:
    return f"{about[0].upper()}{about[1:]}."


def _add_top(commands: _Commands, parents: list[Parser]) -> None:
    about = "CPU and memory in use, predicted Prod peak, reclaimable and Mid resources, and waste"
    top = commands.add_parser("top", help=about, description=_sentence(about), parents=parents)
    top.add_words(
        "words",
        ("nodes", "pods"),
        _settle_top,
        metavar="TYPE [NAME ...]",
        about="nodes or pods, and the names of some of them (default: all nodes)",
    )
    place = top.add_mutually_exclusive_group()
    place.add_argument(
        *("-n", "--namespace"),
        metavar="NAME",
        type=targets.name,
        help="pods: of this namespace (default: the context's; all with --node)",
    )
    place.add_argument("-A", "--all-namespaces", action="store_true", help="pods: of all namespaces")
    which = top.add_mutually_exclusive_group()
    which.add_argument("--node", metavar="NAME", type=targets.name, help="only this node, or pods on it")
    which.add_argument(
        "-l", "--selector", metavar="SELECTOR", help="only nodes, or pods, with these labels, as of kubectl"
    )
    top.add_argument(
        "--sort-by",
        choices=("name", "cpu", "memory", "waste"),
        default="name",
        help="largest first; waste by its larger share of the whole (default: name)",
    )
    parsers.add_no_headers(top)


def _settle_top(options: argparse.Namespace) -> None:
    words = options.words or [targets.NODE]
    options.what, options.names = targets.parse(words, (targets.NODE, targets.POD))
    if options.names and (options.node or options.selector):
        raise argparse.ArgumentTypeError("names exclude --node and -l")
    if options.names and options.all_namespaces:
        raise argparse.ArgumentTypeError("a pod cannot be named with -A: name its namespace with -n")
    if options.what == targets.NODE and options.node:
        options.names = [options.node]


def _add_shadow(commands: _Commands, parents: list[Parser]) -> None:
    about = "what nodes in shadow mode would have published, and how often that would have been too much"
    shadow = commands.add_parser("shadow", help=about, description=_sentence(about), parents=parents)
    shadow.add_argument("-l", "--selector", metavar="SELECTOR", help="only nodes with these labels, as of kubectl")
    parsers.add_namespace(shadow)
    parsers.add_no_headers(shadow)


def _add_simulate(commands: _Commands, parents: list[Parser]) -> None:
    about = "the scheduler plugins' result for a pod: each node's verdict, scores, rank and the numbers behind them"
    simulate = commands.add_parser("simulate", help=about, description=_sentence(about), parents=parents)
    simulate.add_words(
        "source",
        (targets.POD, *targets.WORKLOADS),
        _settle_simulate,
        metavar="TYPE NAME",
        about="a pod of the cluster, or a workload, of which a pod of the template is simulated; "
        "pod FILE: manifest of pods, Deployments, StatefulSets, DaemonSets, Jobs or CronJobs, - reads standard input",
    )
    simulate.add_argument(
        "-n", "--namespace", metavar="NAME", type=targets.name, help="of the pod (default: the context's)"
    )
    parsers.add_profile(simulate)
    simulate.add_argument("--node", metavar="NAME", type=targets.name, help="only this node, with every number")
    simulate.add_argument(
        "--limit",
        metavar="N",
        type=parsers.count,
        default=20,
        help="list so many nodes; 0 lists all, as -o wide does (default: 20)",
    )


def _settle_simulate(options: argparse.Namespace) -> None:
    kinds, words = (targets.POD, *targets.WORKLOADS), options.source
    if len(words) == 2 and targets.kind_of(words[0], kinds) == targets.POD:  # noqa: PLR2004 - TYPE and NAME
        options.what, options.source = targets.POD, words[1]  # a name, or a file
        return
    options.what, names = targets.parse(words, kinds)
    options.source = _only(names)


def _only(names: list[str]) -> str:
    if not names:
        raise argparse.ArgumentTypeError("the following arguments are required: NAME")
    if len(names) > 1:
        raise argparse.ArgumentTypeError("one name is needed, as TYPE NAME or TYPE/NAME")
    return names[0]


def _add_quota(commands: _Commands, parents: list[Parser]) -> None:
    about = "ElasticQuotas: min, used, borrowed, lent and pending amounts; checks of their status"
    quota = commands.add_parser("quota", help=about, description=_sentence(about), parents=parents)
    quota.add_argument(
        "what",
        nargs="?",
        choices=("list", "verify"),
        default="list",
        help="list: a table; verify: faults, exit code 1 with any (default: list)",
    )
    place = quota.add_mutually_exclusive_group()
    place.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        type=targets.name,
        help="list: only of this namespace",
    )
    place.add_argument(
        "-A",
        "--all-namespaces",
        action="store_true",
        help="list: of all namespaces, which is the default: quotas borrow from one another",
    )
    parsers.add_no_headers(quota)
    parsers.add_profile(quota)


def _add_explain(commands: _Commands, parents: list[Parser]) -> None:
    about = (
        "why a node has its Mid resources; why a pod runs where it runs, or waits; who uses how much of a quota, and "
        "its pending pods"
    )
    explain = commands.add_parser("explain", help=about, description=_sentence(about), parents=parents)
    explain.add_words(
        "words",
        _EXPLAINED,
        _settle_explain,
        metavar="TYPE NAME",
        about=f"{', '.join(_EXPLAINED)}; of a workload the pods that wait. With -f the name may be absent where the "
        "file has one node",
    )
    explain.add_argument(
        *("-f", "--filename"),
        metavar="FILE",
        help="node: read its NodeMetric, Node, Pods and the colocation ConfigMap from this YAML or JSON in place of a "
        "cluster; - reads standard input",
    )
    explain.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        type=targets.name,
        help="of the pod or quota (default: the context's); for a node that of Headroom, as --headroom-namespace",
    )
    parsers.add_profile(explain)
    parsers.add_config_name(explain)
    explain.add_argument(
        "--set",
        metavar="SETTING=VALUE",
        action="append",
        default=[],
        help="node: what if this setting were different here, such as midUnallocatedPercent=20 or midEviction.mode=on; "
        "can be repeated; nothing is written",
    )
    explain.add_argument(
        "--config",
        metavar="FILE",
        help="node: what if this were the colocation config: its JSON, or a ConfigMap's manifest; - reads standard "
        "input",
    )


def _settle_explain(options: argparse.Namespace) -> None:
    options.what, names = targets.parse(options.words, _EXPLAINED)
    options.name = None if options.filename is not None and not names else _only(names)


def _add_config(commands: _Commands, login: Parser, output: Parser) -> None:
    about = "check a colocation config, or preview its changes"
    config = commands.add_parser("config", help=about, description=_sentence(about))
    actions = config.add_subparsers(dest="action", metavar="ACTION")
    about = "every error and warning, as the admission webhook and the manager report them; needs no cluster"
    check = actions.add_parser("check", help=about, description=_sentence(about), parents=[output])
    about = "which nodes of the cluster would change, and how their strategy differs"
    parents = [login, output]
    diff = actions.add_parser("diff", help=about, description=_sentence(about), parents=parents)
    parsers.add_place(diff)
    for action in (check, diff):
        action.add_argument(
            "file", metavar="FILE", help="JSON of colocation-config, or a ConfigMap's manifest; - reads standard input"
        )


def _add_profile(commands: _Commands, login: Parser, output: Parser) -> None:
    about = "the ClusterColocationProfiles that match a pod and their changes, and the number of pods of each profile"
    profile = commands.add_parser("profile", help=about, description=_sentence(about))
    actions = profile.add_subparsers(dest="action", metavar="ACTION")
    about = "which profiles match a pod, why the others do not, and the pod before and after"
    explain = actions.add_parser("explain", help=about, description=_sentence(about), parents=[login, output])
    source = explain.add_mutually_exclusive_group(required=True)
    source.add_argument(
        *("-f", "--filename"),
        dest="filename",
        metavar="FILE",
        help="manifest of pods or workloads; - reads standard input",
    )
    source.add_argument("--pod", metavar="NAME", type=targets.name, help="a pod of the cluster")
    explain.add_argument(
        *("-n", "--namespace"), metavar="NAME", type=targets.name, help="of the pod (default: the context's)"
    )
    explain.add_argument(
        "--headroom-namespace",
        metavar="NAME",
        type=targets.name,
        default=parsers.NAMESPACE,
        help=f"namespace of Headroom, in which no profile applies (default: {parsers.NAMESPACE})",
    )
    about = "all profiles, and how many running pods each of them matches"
    listed = actions.add_parser("list", help=about, description=_sentence(about), parents=[login, output])
    parsers.add_no_headers(listed)


def _add_doctor(commands: _Commands, parents: list[Parser]) -> None:
    about = "faults of the installation, or obstacles to one, with fixes; exit code 1 with errors"
    doctor = commands.add_parser("doctor", help=about, description=_sentence(about), parents=parents)
    doctor.add_argument("--preflight", action="store_true", help="whether Headroom can be installed here")
    parsers.add_place(doctor)


def _add_backtest(commands: _Commands, parents: list[Parser]) -> None:
    about = "what a prediction policy would have saved on recorded usage, and how often it would have been wrong"
    described = (
        f"{_sentence(about)} Runs the agent's own models, stepped through time; needs no cluster. The oracle, which "
        "knows the future, is always shown beside them."
    )
    backtest.add(commands.add_parser("backtest", help=about, description=described, parents=parents))
