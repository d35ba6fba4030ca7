"""`kubectl headroom simulate pod FILE|NAME`: reads, runs the plugins, prints."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from headroom import kube
from headroom.cli import live, table
from headroom.cli import output as outputs
from headroom.cli.errors import CommandError
from headroom.cli.simulate import document
from headroom.cli.simulate import profile as profiles
from headroom.cli.simulate import text as as_text
from headroom.cli.simulate.pod_file import GivenPod, PodFile
from headroom.cli.simulate.simulation import Simulation, World, simulate, without_readings
from scheduler_plugins.snapshot.watch import LIVE_PODS

PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"  # path of the PriorityClasses

_MOST_UNREADABLE: Final = 5
_NOT_SIMULATED: Final = (
    "Not simulated: kube-scheduler's own filters and scores (requests that fit, taints, affinity, volumes), and pods "
    "that the running extender has answered for but whose binding nobody has seen yet."
)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    name: str  # name of the pod, where `given` is None
    given: PodFile | None  # the file with the pods
    chosen: profiles.Chosen | None  # the profile of a file; None: the cluster's
    namespace: str | None  # namespace of the pod; None: that of the login's context
    headroom_namespace: str  # where the scheduler's ConfigMap is
    scheduler_name: str | None  # which profile of a KubeSchedulerConfiguration
    node: str | None  # show this node in full, and no other
    limit: int  # how many nodes the tables list; 0: all
    output: str  # table, wide, json or yaml


async def pod(api: kube.ApiServer, asked: Asked, clock: live.Clock | None = None) -> None:
    """Print what our plugins say of pods.

    Args:
        api: the cluster.
        asked: what to simulate.
        clock: the present time, by which ages are judged; None: the API server's.

    Raises:
        CommandError: something that was asked for is not there, or cannot be understood.
    """
    chosen = asked.chosen or await profiles.of_cluster(api, asked.headroom_namespace, asked.scheduler_name)
    namespace = live.namespace_of(api, asked.namespace)
    given = asked.given.pods(namespace) if asked.given else [await _live_pod(api, namespace, asked.name)]
    world = World.empty(chosen.profile, (clock or await live.server_time(api))())
    # Each object becomes numbers as its page arrives: of 150,000 pods nobody can hold the JSON.
    *_, classes, absent = await live.together(
        api.list(kube.paths.NODES, keep=world.put_node),
        live.node_metrics(api, world.put_node_metric),
        api.list(kube.paths.PODS, {"fieldSelector": LIVE_PODS}, world.put_pod),
        _priority_classes(api),
        read_kept(api, world),
    )
    if asked.node is not None:
        await live.node(api, asked.node)
    priorities = [note for each in given for note in _settle_priority(each, classes)]
    simulations = [simulate(world, each) for each in given]
    notes = [_NOT_SIMULATED, *priorities, *_bound(given)]
    notes += [_no_readings(plugin) for plugin in without_readings(chosen.profile)]
    notes += [*chosen.profile.notes, *absent, *_shortened(world.unreadable)]
    if outputs.is_for_people(asked.output):
        limit = 0 if asked.output == outputs.WIDE else asked.limit
        show(chosen, simulations, notes, limit, asked.node)
    else:
        print(document.text(chosen, _only(simulations, asked.node), notes, asked.output))


def show(
    chosen: profiles.Chosen, simulations: Sequence[Simulation], notes: Sequence[str], limit: int, node: str | None
) -> None:
    """Print the simulations as tables, and below them what to keep in mind."""
    for simulation in simulations:
        for heading, columns, rows in as_text.tables(chosen, simulation, limit, node):
            for each in heading.split("\n"):
                outputs.line(each)
            if columns:
                table.write(columns, rows)
            outputs.line()
    for note in notes:
        outputs.line(f"- {note}")


async def read_kept(api: kube.ApiServer, world: World) -> list[str]:
    """List the kinds of objects that plugins keep an account of.

    Returns:
        A sentence about each kind that the cluster does not know and can do without.
    """
    notes = []
    for source in world.sources():
        try:
            await api.list(source.path, keep=partial(world.put_kept, source))
        except kube.ApiError as error:
            if not (error.not_found and source.absent_is_empty):
                raise
            notes.append(f"The cluster does not know {source.kind}, so there are none ({source.hint}).")
    return notes


async def _live_pod(api: kube.ApiServer, namespace: str, name: str) -> GivenPod:
    result = await kube.optional(api.get(kube.paths.pod(namespace, name)))
    if result is None:
        raise CommandError(
            f"There is no pod {name!r} in namespace {namespace}: name another with -n, or give a file as ./{name}.yaml."
        )
    return GivenPod(f"Pod {namespace}/{name}", result)


async def _priority_classes(api: kube.ApiServer) -> dict[str, Json] | None:
    """The PriorityClasses by name; None where they may not be read."""
    try:
        result = await live.objects(api, PRIORITY_CLASSES)
    except kube.ApiError:
        return None
    return {str(priority_class["metadata"]["name"]): priority_class for priority_class in result}


def _settle_priority(given: GivenPod, classes: dict[str, Json] | None) -> list[str]:
    """Give a pod of a file the priority that the API server would, and say where that cannot be told."""
    spec = given.pod["spec"]
    if spec.get("priority") is not None:
        return []
    name = spec.get("priorityClassName")
    if classes is None:
        return [f"{given.title}: its priority counts as 0, because PriorityClasses may not be read."] if name else []
    default = next((cls_ for cls_ in classes.values() if cls_.get("globalDefault")), None)
    result = classes.get(name) if isinstance(name, str) and name else default
    if result is not None:
        spec["priority"] = result.get("value")
    elif name:
        return [f"{given.title}: there is no PriorityClass {name}; its priority counts as 0."]
    return []


def _bound(given: Sequence[GivenPod]) -> list[str]:
    return [
        f"{each.title} runs on {node} already: it is judged as if it were pending, but what it uses is part of what "
        "that node reports."
        for each in given
        if (node := each.pod["spec"].get("nodeName"))
    ]


def _no_readings(plugin: str) -> str:
    return (
        f"{plugin} works from a provider of its own, which only the running extender asks: here it judges every node "
        "as one without metrics. GET /debug/nodes/NAME of the extender shows what it knows."
    )


def _shortened(unreadable: Sequence[str]) -> list[str]:
    more = len(unreadable) - _MOST_UNREADABLE
    return [*unreadable[:_MOST_UNREADABLE], *([f"{more} more objects cannot be understood."] if more > 0 else [])]


def _only(simulations: Sequence[Simulation], node: str | None) -> list[Simulation]:
    if node is None:
        return list(simulations)
    return [simulation.only(node) for simulation in simulations]
