"""`python -m tools.devcluster`: run dev clusters by hand, and build their parts."""

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from tools.devcluster import images, node, packages, seeds, state
from tools.devcluster.binaries import Binaries
from tools.devcluster.cluster import Cluster, ClusterSpec
from tools.devcluster.commands import DevClusterError, MissingRequirementError
from tools.devcluster.families import CONTROL_PLANE, FAMILIES, KUBERNETES_VARIABLE, REAL_NODE
from tools.devcluster.places import clusters_directory
from tools.devcluster.process import last_lines
from tools.devcluster.progress import Progress

DEFAULT_NAME = "dev"
DEFAULT_KWOK_NODES = 3
CHECK_SECONDS = 1.0
DOWN_SECONDS = 60.0
DETACH_SECONDS = 3600.0  # builds included
INTERRUPTED = 130
IMAGES = "container images"
IMAGES_SECONDS = 150.0


def say(line: str) -> None:
    """Print a line of progress at once."""
    print(line, flush=True)


def up(options: argparse.Namespace) -> None:
    """Run a cluster until Ctrl-C, or in the background."""
    if options.detach:
        detach(options)
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `down` ends it as Ctrl-C does
    kwok_nodes = options.kwok_nodes
    if kwok_nodes is None:
        kwok_nodes = 0 if options.real_node else DEFAULT_KWOK_NODES
    spec = ClusterSpec(options.name, options.kubernetes, real_node=options.real_node, kwok_nodes=kwok_nodes)
    with Cluster(spec, say) as cluster:
        say(cluster.kubectl("get", "nodes", "-o", "wide").rstrip())
        say(f"\nexport KUBECONFIG={cluster.kubeconfig}")
        say(f"export PATH={cluster.binaries.path('kubectl').parent}:{cluster.binaries.path('helm').parent}:$PATH")
        say(f"logs: {cluster.logs}\nCtrl-C (or `python -m tools.devcluster down {cluster.name}`) ends it")
        try:
            while True:
                cluster.check()
                time.sleep(CHECK_SECONDS)
        except KeyboardInterrupt:
            say("stopping")
    say(f"cluster {cluster.name} is gone")


def detach(options: argparse.Namespace) -> None:
    """Start `up` as a process of its own, and return when its cluster is ready."""
    log = clusters_directory() / f"{options.name}.log"
    command = [sys.executable, "-m", "tools.devcluster", "up", options.name]
    command += ["--real-node"] if options.real_node else []
    command += [] if options.kwok_nodes is None else ["--kwok-nodes", str(options.kwok_nodes)]
    command += ["--kubernetes", options.kubernetes] if options.kubernetes else []
    with log.open("wb") as file:
        nothing, joint = subprocess.DEVNULL, subprocess.STDOUT
        owner = subprocess.Popen(command, stdin=nothing, stdout=file, stderr=joint, start_new_session=True)
    say(f"starting cluster {options.name} in the background; its log is {log}")
    deadline = time.monotonic() + DETACH_SECONDS
    while time.monotonic() < deadline:
        result = state.read(options.name)
        if result is not None and result.pid == owner.pid and result.ready:
            say(f"export KUBECONFIG={result.kubeconfig}")
            return
        if owner.poll() is not None:
            break
        time.sleep(CHECK_SECONDS)
    raise DevClusterError(f"cluster {options.name} did not start:\n{last_lines(log)}")


def down(options: argparse.Namespace) -> None:
    """End one cluster, or all of this user."""
    names = [result.name for result in state.clusters()] if options.all else [options.name]
    for name in names:
        result = state.read(name)
        if result is None:
            raise DevClusterError(f"there is no cluster {name!r}; {known()}")
        say(f"stopping cluster {name} (pid {result.pid})")
        state.end(result, DOWN_SECONDS)
        (clusters_directory() / f"{name}.log").unlink(missing_ok=True)
    if packages.real_node_refusal() is None:
        node.sweep(say)


def known() -> str:
    """The running clusters in one phrase."""
    names = [result.name for result in state.clusters()]
    return f"running: {', '.join(names)}" if names else "none runs"


def status(_: argparse.Namespace) -> None:
    """Print a line for each cluster of this user."""
    rows = [("NAME", "STATE", "PID", "KUBERNETES", "REAL NODE", "KWOK NODES", "KUBECONFIG")]
    for result in state.clusters():
        condition = "gone" if not result.alive else "ready" if result.ready else "starting"
        nodes = (result.real_node or "-", str(result.kwok_nodes))
        rows.append((result.name, condition, str(result.pid), result.kubernetes, *nodes, str(result.kubeconfig)))
    if len(rows) == 1:
        say(f"no dev cluster runs (looked in {clusters_directory()})")
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        say("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip())


def running(name: str) -> state.ClusterState:
    """A cluster that is ready."""
    result = state.read(name)
    if result is None or not result.alive:
        raise DevClusterError(f"there is no cluster {name!r}; {known()}")
    if not result.ready:
        raise DevClusterError(f"cluster {name!r} is still starting")
    return result


def kubeconfig(options: argparse.Namespace) -> None:
    """Print the path of a cluster's kubeconfig."""
    say(str(running(options.name).kubeconfig))


def real_node(options: argparse.Namespace) -> None:
    """Print the state of a cluster's real node: the Node, its pods, the end of its programs' logs."""
    result = running(options.name)
    if result.real_node is None:
        raise DevClusterError(f"cluster {result.name!r} has no real node: start one with `up --real-node`")
    kubectl = Binaries.find_or_build(["kubernetes"], lambda _: None, result.kubernetes).path("kubectl")
    for words in (
        ("get", "node", result.real_node, "-o", "wide"),
        ("get", "pods", "-A", "-o", "wide", "--field-selector", f"spec.nodeName={result.real_node}"),
    ):
        subprocess.run([kubectl, "--kubeconfig", result.kubeconfig, *words], check=False)
    for log in ("containerd", "kubelet"):
        file = result.directory / "logs" / f"{log}.log"
        say(f"the end of {file}:\n{last_lines(file, 5)}")


def prepare(options: argparse.Namespace) -> None:
    """Build the programs of clusters, and with `--node` the images."""
    refusal = packages.real_node_refusal() if options.node else None
    if refusal:
        say(f"images and the real node are left out: {refusal}")
    with_node = options.node and not refusal
    families = REAL_NODE if with_node else CONTROL_PLANE
    progress = Progress(_estimates(families, options.kubernetes, with_node=with_node), say)
    binaries = Binaries()
    for family in families:
        with progress.part(family):
            binaries = binaries.with_more(Binaries.find_or_build([family], progress, options.kubernetes))
    if with_node:
        node.require_root()
        with progress.part(IMAGES):
            seeds.prepare(images.build_all(binaries, progress), binaries, progress)
    progress("the dev cluster's parts are ready")


def _estimates(families: Sequence[str], kubernetes: str, *, with_node: bool) -> dict[str, float]:
    """Return how long each missing part takes on 2 cores. [s]"""
    result = {name: 60 * FAMILIES[name].minutes for name in Binaries.missing(families, kubernetes)}
    return {**result, IMAGES: IMAGES_SECONDS} if with_node and not images.has_base() else result


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.devcluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], None], words: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=words, description=words)
        command.set_defaults(run=run)
        return command

    def add_named(name: str, run: Callable[[argparse.Namespace], None], words: str) -> argparse.ArgumentParser:
        command = add(name, run, words)
        command.add_argument("name", nargs="?", default=DEFAULT_NAME, help=f"of the cluster (default {DEFAULT_NAME})")
        return command

    def add_version(command: argparse.ArgumentParser) -> None:
        words = f"minor version, such as 1.30 (default ${KUBERNETES_VARIABLE}, else {FAMILIES['kubernetes'].minor})"
        command.add_argument("--kubernetes", default="", metavar="VERSION", help=words)

    command = add_named("up", up, "run a cluster in the foreground until Ctrl-C")
    command.add_argument("--real-node", action="store_true", help="with a real node: root on Linux")
    words = f"nodes without a machine (default {DEFAULT_KWOK_NODES}, or 0 beside a real node)"
    command.add_argument("--kwok-nodes", type=int, metavar="N", help=words)
    command.add_argument("--detach", action="store_true", help="return when it is ready; it runs on in the background")
    add_version(command)
    command = add_named("down", down, "end a cluster")
    command.add_argument("--all", action="store_true", help="end all clusters of this user")
    add("status", status, "list the clusters of this user")
    add_named("kubeconfig", kubeconfig, "print the path of a cluster's kubeconfig")
    add_named("node", real_node, "print the state of a cluster's real node")
    command = add("prepare", prepare, "build the programs that clusters need, once, into the cache")
    command.add_argument("--node", action="store_true", help="also the parts of the real node, and our images")
    add_version(command)
    add("images", lambda _: images.main(say), "build the container images into the cache")
    add("packages", lambda _: packages.install(say), "install the system packages that the real node needs")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. What goes wrong is said in plain lines."""
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments)
        options.run(options)
    except (DevClusterError, MissingRequirementError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
