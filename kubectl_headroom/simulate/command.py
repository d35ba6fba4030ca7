"""`kubectl headroom simulate TYPE NAME`, or of the pods in a file: reads, runs the plugins, prints."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from crds.mid_amounts import implausible_amounts
from headroom import kube
from kubectl_headroom import live, table, targets, workload
from kubectl_headroom import output as outputs
from kubectl_headroom.errors import CommandError
from kubectl_headroom.simulate import document
from kubectl_headroom.simulate import text as as_text
from kubectl_headroom.simulate.pod_file import GivenPod, PodFile
from kubectl_headroom.simulate.profile import SelectedProfile, of_cluster
from kubectl_headroom.simulate.simulation import Simulation, World, simulate, without_readings
from kubectl_headroom.tenant import ALL_PODS, Denied
from scheduler_plugins.api import LIVE_PODS

PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"  # path of the PriorityClasses

_MOST_UNREADABLE: Final = 5
_NOT_SIMULATED: Final = (
    "Not simulated: kube-scheduler's own filters and scores (requests that fit, taints, affinity, volumes), and pods "
    "that the running extender has admitted and kube-scheduler has not bound yet."
)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodRequest:
    """The arguments of the command."""

    name: str  # name of the pod or workload, where `given` is None
    given: PodFile | None  # the file with the pods
    chosen: SelectedProfile | None  # the profile of a file; None: the cluster's
    namespace: str | None  # namespace of the pod; None: that of the login's context
    headroom_namespace: str  # where the scheduler's ConfigMap is
    scheduler_name: str | None  # which profile of a KubeSchedulerConfiguration
    node: str | None  # show this node in full, and no other
    limit: int  # how many nodes the tables list; 0: all
    output: str  # table, wide, json or yaml
    kind: str = targets.POD  # "pod", or one of `kubectl_headroom.targets.WORKLOADS`


async def pod(api: kube.ApiServer, request: PodRequest, clock: live.Clock | None = None) -> None:
    """Print the plugins' results for pods.

    Args:
        api: the cluster.
        request: the arguments.
        clock: the present time, by which ages are evaluated; None: the API server's.

    Raises:
        CommandError: a requested object is absent or malformed.
    """
    chosen = request.chosen or await of_cluster(api, request.headroom_namespace, request.scheduler_name)
    namespace = live.namespace_of(api, request.namespace)
    pods = request.given.pods(namespace) if request.given else [await _live(api, namespace, request)]
    world = World.empty(chosen.profile, (clock or await live.server_time(api))())
    # Each object becomes numbers as its page arrives: the JSON of 150,000 pods does not fit into memory.
    denied = Denied()
    *_, classes, absent = await live.together(
        api.list(kube.paths.NODES, keep=world.put_node),
        denied.unless("NodeMetrics", live.node_metrics(api, world.put_node_metric), []),
        denied.unless(ALL_PODS, api.list(kube.paths.PODS, {"fieldSelector": LIVE_PODS}, world.put_pod), ([], "")),
        _priority_classes(api),
        read_watched(api, world, denied),
    )
    if request.node is not None:
        await live.node(api, request.node)
    priorities = [note for item in pods for note in _settle_priority(item, classes)]
    simulations = [simulate(world, item) for item in pods]
    implausible = [
        f"Probably wrong unit, {item.title}: {text}." for item in pods for text in implausible_amounts(item.pod)
    ]
    notes = [*implausible, _NOT_SIMULATED, *priorities, *_bound(pods)]
    notes += [_no_readings(plugin) for plugin in without_readings(chosen.profile)]
    notes += [denied.note("the simulation goes without them")] if denied else []
    notes += [*chosen.profile.notes, *absent, *_shortened(world.unreadable)]
    if outputs.is_for_people(request.output):
        limit = 0 if request.output == outputs.WIDE else request.limit
        show(chosen, simulations, notes, limit, request.node)
    else:
        document.show(chosen, _only(simulations, request.node), notes, request.output)


def show(
    chosen: SelectedProfile, simulations: Sequence[Simulation], notes: Sequence[str], limit: int, node: str | None
) -> None:
    """Print the simulations as tables, and below them what to keep in mind."""
    for simulation in simulations:
        for heading, columns, rows in as_text.tables(chosen, simulation, limit, node):
            for line in heading.split("\n"):
                outputs.line(line)
            if columns:
                table.write(columns, rows)
            outputs.line()
    for note in notes:
        outputs.line(f"- {note}")


async def read_watched(api: kube.ApiServer, world: World, denied: Denied) -> list[str]:
    """List the kinds of objects that plugins keep an account of.

    Returns:
        A sentence about each kind that the cluster does not know and can do without.
    """
    notes = []
    for source in world.sources():
        try:
            await denied.unless(source.kind, api.list(source.path, keep=partial(world.put_watched, source)), ([], ""))
        except kube.ApiError as error:
            if not (error.not_found and source.absent_is_empty):
                raise
            notes.append(f"The cluster does not know {source.kind}, so there are none ({source.hint}).")
    return notes


async def _live(api: kube.ApiServer, namespace: str, request: PodRequest) -> GivenPod:
    """Return a pod of the cluster, or one of the template of a workload."""
    name = request.name
    if request.kind != targets.POD:
        item = await workload.read(api, request.kind, namespace, name)
        return PodFile("the cluster", (item,)).pods(namespace)[0]
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
    """Give a pod of a file the priority that the API server would, and report where that is unknown."""
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
        f"{item.title} runs on {node} already: it is evaluated as if it were pending, but its usage is part of what "
        "that node reports."
        for item in given
        if (node := item.pod["spec"].get("nodeName"))
    ]


def _no_readings(plugin: str) -> str:
    return (
        f"{plugin} reads a metrics provider, which only the running extender polls: here it evaluates every node "
        "as one without metrics. GET /debug/nodes/NAME of the extender shows its readings."
    )


def _shortened(unreadable: Sequence[str]) -> list[str]:
    more = len(unreadable) - _MOST_UNREADABLE
    return [*unreadable[:_MOST_UNREADABLE], *([f"{more} more objects cannot be understood."] if more > 0 else [])]


def _only(simulations: Sequence[Simulation], node: str | None) -> list[Simulation]:
    if node is None:
        return list(simulations)
    return [simulation.only(node) for simulation in simulations]
