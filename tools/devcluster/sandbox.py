"""The namespaces of one real node, seen from outside: start its first process, run programs in it, end it all."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from tools.devcluster.binaries import Binaries
from tools.devcluster.commands import DevClusterError
from tools.devcluster.network import Network
from tools.devcluster.node_init import View
from tools.devcluster.places import cache_directory
from tools.devcluster.process import Supervisor, last_lines

ROOT = Path(__file__).parents[2]
PROGRAMS = ("containerd", "kubelet")


def program_folders(binaries: Binaries) -> tuple[str, ...]:
    """Folders that a node must keep visible, wherever they are: what its first process and its programs run from."""
    programs = {str(binaries.path(program).parent) for program in PROGRAMS if program in binaries.paths}
    return (str(cache_directory()), str(ROOT), sys.prefix, sys.base_prefix, *sorted(programs))


def open_sandbox(view: View, logs: Path, network: Network | None = None) -> Supervisor:
    """Start the first process of a node, in new mount, PID and cgroup namespaces and in the cluster's network.

    The supervisor that comes back starts programs inside (their process ids are those of the node). Closing it ends
    every process in there, those of pods too; so does the death of this process.
    """
    network_argv = network.command() if network else ["unshare", "--net"]
    namespaces = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
    init = [sys.executable, "-S", "-m", "tools.devcluster.node_init", json.dumps(asdict(view))]
    argv = [*network_argv, *namespaces, "env", f"PYTHONPATH={ROOT}", *init]
    supervisor = Supervisor(logs, name="node", argv=argv)
    try:
        supervisor.request(op="ready")
    except DevClusterError as error:
        supervisor.close()
        raise DevClusterError(f"the node's namespaces could not be made:\n{last_lines(supervisor.log)}") from error
    return supervisor


def init_pid(supervisor: Supervisor) -> int:
    """The process id, on the machine, of a sandbox's first process."""
    for child in Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children").read_text().split():
        return int(child)
    raise ProcessLookupError(supervisor.pid, os.strerror(3))


def enter_command(supervisor: Supervisor, *argv: str | Path) -> list[str]:
    """A command line that runs a program in a sandbox, for instance a shell to look around."""
    target = f"--target={init_pid(supervisor)}"
    return ["nsenter", target, "--mount", "--pid", "--net", "--cgroup", "--wd=/", "--", *(str(word) for word in argv)]
