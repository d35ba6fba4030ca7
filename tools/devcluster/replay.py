"""Host trees for the agents of kwok nodes: follows nodes and their pods, and advances one replayed machine a node.

A process of its own, `python -m tools.devcluster.replay`; `Cluster.start_replay` runs it beside a cluster.
"""

import argparse
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.devcluster.api import ApiClient, ApiError, Json
from tools.devcluster.errors import DevClusterError
from tools.devcluster.kwok import ANNOTATION
from tools.devcluster.replay_files import NOTHING as NO_LOAD
from tools.devcluster.replay_files import CgroupV1, CgroupV2, Group, Layout
from tools.devcluster.replay_load import amount, node_floor, pod_load, sum_of, system_load
from tools.devcluster.replay_machine import Machine

LAYOUTS: dict[str, Callable[[], Layout]] = {"v1": CgroupV1, "v2": CgroupV2}
STEP_SECONDS = 0.1
"""How often the files are written when that is quick; with many nodes, as often as one half of one CPU can."""
RETRY_SECONDS = 1.0
ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class ReplaySettings:
    """What is replayed, and how."""

    root: Path  # below it, each node gets a folder with its name: the agent's `--host-root`
    cgroups: str = "v2"  # version of the machines' cgroups: v1 or v2
    speed: float = 1.0  # how much faster than the clock the time in the traces passes
    step_seconds: float = STEP_SECONDS  # shortest time between two writes of the files


class Follower:
    """The objects of a collection by uid, kept up to date by a thread; what was known stays while the API is away."""

    def __init__(self, api: ApiClient, path: str) -> None:
        self._api, self._path = api, path
        self._lock = threading.Lock()
        self._objects: dict[str, Json] = {}
        self.changes = 0  # how many changes have come
        self.listed = threading.Event()  # set once the first list has come
        threading.Thread(target=self._follow, daemon=True).start()

    def objects(self) -> list[Json]:
        """All objects, as last known."""
        with self._lock:
            return list(self._objects.values())

    def _follow(self) -> None:
        while True:
            try:
                for kind, value in self._api.watch(self._path):
                    self._take(kind, value)
            except (ApiError, OSError) as error:
                print(f"{self._path}: {error}; asking again", file=sys.stderr, flush=True)
                time.sleep(RETRY_SECONDS)

    def _take(self, kind: str, value: Json) -> None:
        with self._lock:
            self.changes += 1
            if kind == "LISTED":
                self._objects = {one["metadata"]["uid"]: one for one in value["items"]}
                self.listed.set()
            elif kind == "DELETED":
                self._objects.pop(value["metadata"]["uid"], None)
            else:
                self._objects[value["metadata"]["uid"]] = value


class Replay:
    """The machines of all kwok nodes."""

    def __init__(self, settings: ReplaySettings) -> None:
        self._settings = settings
        self._machines: dict[str, Machine] = {}
        self._groups: dict[tuple[str, str], Group] = {}
        self._before: float | None = None
        self._said: set[str] = set()

    def follow(self, nodes: Sequence[Json], pods: Sequence[Json]) -> None:
        """Take over what nodes and pods there are now."""
        here = {node["metadata"]["name"]: node for node in nodes if ANNOTATION in _annotations(node)}
        for name in set(self._machines) - set(here):
            del self._machines[name]
            shutil.rmtree(self._settings.root / name, ignore_errors=True)
        bound: dict[str, dict[str, Group]] = {name: {} for name in here}
        groups: dict[tuple[str, str], Group] = {}
        for pod in pods:
            name, key = pod["spec"].get("nodeName"), (pod["metadata"]["uid"], pod["metadata"]["resourceVersion"])
            if name in bound and pod["status"].get("phase") not in ENDED:
                group = self._groups.get(key) or self._group(pod)
                bound[name][key[0]] = groups[key] = group
        self._groups = groups
        for name, node in here.items():
            self._set_node(name, node)
            self._machines[name].set_pods(bound[name])

    def advance(self, now: float) -> None:
        """Let the time since the last call pass on every machine.

        Args:
            now: a clock that only goes forward. [seconds]
        """
        elapsed = 0.0 if self._before is None else now - self._before
        self._before = now
        for machine in self._machines.values():
            machine.advance(elapsed, self._settings.speed)

    def _set_node(self, name: str, node: Json) -> None:
        capacity = node["status"]["capacity"]
        cpu, memory = amount(str(capacity["cpu"])), amount(str(capacity["memory"]))
        try:
            floor = node_floor(node, cpu, memory)
        except DevClusterError as error:
            self._say_once(str(error))
            floor = NO_LOAD
        if name in self._machines:
            self._machines[name].floor = floor
            return
        directory = self._settings.root / name
        shutil.rmtree(directory, ignore_errors=True)  # of an earlier run: a machine starts with counters at zero
        partial = directory.with_name(f".{name}")
        shutil.rmtree(partial, ignore_errors=True)
        layout, system = LAYOUTS[self._settings.cgroups](), system_load(node, cpu, memory)
        machine = Machine(partial, max(1, int(cpu)), int(memory), system, floor, layout)
        machine.move(directory)  # an agent that waits for the folder finds it whole
        self._machines[name] = machine

    def _group(self, pod: Json) -> Group:
        try:
            load = pod_load(pod)
        except DevClusterError as error:
            self._say_once(str(error))
            load = NO_LOAD
        uid, quality = pod["metadata"]["uid"], pod["status"].get("qosClass", "BestEffort")
        parent = "kubepods" if quality == "Guaranteed" else f"kubepods/{quality.lower()}"
        limits = sum_of(pod, "limits", ("cpu",)), sum_of(pod, "limits", ("memory",))
        return Group(f"{parent}/pod{uid}", load, limits[0], int(limits[1]))

    def _say_once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            print(line, file=sys.stderr, flush=True)


def _annotations(thing: Json) -> Json:
    return thing["metadata"].get("annotations") or {}


def run(api: ApiClient, settings: ReplaySettings) -> None:
    """Follow the cluster and replay until this process is ended."""
    settings.root.mkdir(parents=True, exist_ok=True)
    nodes, pods = Follower(api, "/api/v1/nodes"), Follower(api, "/api/v1/pods")
    nodes.listed.wait()
    pods.listed.wait()
    replay, seen = Replay(settings), (-1, -1)
    while True:
        started = time.monotonic()
        changes = (nodes.changes, pods.changes)
        if changes != seen:
            replay.follow(nodes.objects(), pods.objects())
            seen = changes
        replay.advance(time.monotonic())
        took = time.monotonic() - started
        time.sleep(max(took, settings.step_seconds - took))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tools.devcluster.replay", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, help="the cluster")
    parser.add_argument("--root", type=Path, required=True, help="folder for one host tree a node")
    parser.add_argument("--cgroups", choices=sorted(LAYOUTS), default="v2", help="version of the machines' cgroups")
    parser.add_argument("--speed", type=float, default=1.0, help="how much faster the time in the traces passes")
    parser.add_argument("--step", type=float, default=STEP_SECONDS, metavar="SECONDS", help="time between two writes")
    options = parser.parse_args(arguments)
    settings = ReplaySettings(options.root, options.cgroups, options.speed, options.step)
    try:
        run(ApiClient.from_kubeconfig(options.kubeconfig), settings)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
