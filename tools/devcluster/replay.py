"""Host trees for the agents of kwok nodes: follows nodes and their pods, and advances one replayed machine a node.

A process of its own, `python -m tools.devcluster.replay`; `Cluster.start_replay` runs it beside a cluster.
"""

import argparse
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.devcluster.api import ApiClient, ApiError, Json
from tools.devcluster.commands import DevClusterError
from tools.devcluster.kwok import ANNOTATION
from tools.devcluster.replay_load import NOTHING, Load, amount, node_floor, pod_load, sum_of, system_load
from tools.devcluster.replay_machine import Group, Machine

STEP_SECONDS = 0.1
"""The interval of writes while they are fast; with many nodes, as often as one half of one CPU can."""
RETRY_SECONDS = 1.0
ENDED = ("Succeeded", "Failed")


class Follower:
    """The objects of a collection by uid, kept up to date by a thread, also while the API is away."""

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
                print(f"{self._path}: {error}; trying again", file=sys.stderr, flush=True)
                time.sleep(RETRY_SECONDS)

    def _take(self, kind: str, value: Json) -> None:
        with self._lock:
            self.changes += 1
            if kind == "LISTED":
                self._objects = {item["metadata"]["uid"]: item for item in value["items"]}
                self.listed.set()
            elif kind == "DELETED":
                self._objects.pop(value["metadata"]["uid"], None)
            else:
                self._objects[value["metadata"]["uid"]] = value


class Replay:
    """The machines of all kwok nodes, one folder below `root` each."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._machines: dict[str, Machine] = {}
        self._groups: dict[tuple[str, str], Group] = {}
        self._before: float | None = None
        self._said: set[str] = set()

    def follow(self, nodes: Sequence[Json], pods: Sequence[Json]) -> None:
        """Take over what nodes and pods there are now; nodes without kwok's annotation are left alone."""
        ours = [node for node in nodes if ANNOTATION in node["metadata"].get("annotations", {})]
        here = {node["metadata"]["name"]: node for node in ours}
        for name in set(self._machines) - set(here):
            del self._machines[name]
            shutil.rmtree(self._root / name, ignore_errors=True)
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
        """Let the time since the last call pass on every machine, by a clock that only goes forward.

        Args:
            now: its time. [seconds]
        """
        elapsed = 0.0 if self._before is None else now - self._before
        self._before = now
        for machine in self._machines.values():
            machine.advance(elapsed)

    def _set_node(self, name: str, node: Json) -> None:
        cpu, memory = (amount(str(node["status"]["capacity"][resource])) for resource in ("cpu", "memory"))
        floor = self._readable(lambda: node_floor(node, cpu, memory))
        if name in self._machines:
            self._machines[name].floor = floor
            return
        directory, partial = self._root / name, self._root / f".{name}"
        for old in (directory, partial):  # of an earlier run: a machine starts with counters at zero
            shutil.rmtree(old, ignore_errors=True)
        machine = Machine(partial, max(1, int(cpu)), int(memory), system_load(node, cpu, memory), floor)
        machine.move(directory)  # an agent that waits for the folder finds it whole
        self._machines[name] = machine

    def _group(self, pod: Json) -> Group:
        uid, quality = pod["metadata"]["uid"], pod["status"].get("qosClass", "BestEffort")
        parent = "kubepods" if quality == "Guaranteed" else f"kubepods/{quality.lower()}"
        cpu_limit, memory_limit = sum_of(pod, "limits", ("cpu",)), sum_of(pod, "limits", ("memory",))
        load = self._readable(lambda: pod_load(pod))
        return Group(f"{parent}/pod{uid}", load, cpu_limit, int(memory_limit))

    def _readable(self, read: Callable[[], Load]) -> Load:
        """A load; none, said once, where its annotations cannot be read."""
        try:
            return read()
        except DevClusterError as error:
            if str(error) not in self._said:
                self._said.add(str(error))
                print(error, file=sys.stderr, flush=True)
            return NOTHING


def main(arguments: Sequence[str] | None = None) -> None:
    """Follow the cluster and replay until this process is ended."""
    parser = argparse.ArgumentParser(prog="python -m tools.devcluster.replay", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, help="the cluster")
    parser.add_argument("--root", type=Path, required=True, help="folder for one host tree a node")
    options = parser.parse_args(arguments)
    options.root.mkdir(parents=True, exist_ok=True)
    api = ApiClient.from_kubeconfig(options.kubeconfig)
    nodes, pods = Follower(api, "/api/v1/nodes"), Follower(api, "/api/v1/pods")
    nodes.listed.wait()
    pods.listed.wait()
    replay, observed = Replay(options.root), (-1, -1)
    while True:
        started = time.monotonic()
        changes = (nodes.changes, pods.changes)
        if changes != observed:
            replay.follow(nodes.objects(), pods.objects())
            observed = changes
        replay.advance(time.monotonic())
        took = time.monotonic() - started
        time.sleep(max(took, STEP_SECONDS - took))


if __name__ == "__main__":
    main()
