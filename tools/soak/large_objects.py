"""What anybody may write is written large, anew each time: memory must go back to what the last version takes."""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tools.soak.progress import Progress, run

OBJECTS, LABELS = 1000, 8_000
"""So many versions of each kind, each with so many labels, values and entries that no other version has."""
GROWTH_MIB: Final = {"agent": 16.0, "manager": 24.0, "scheduler": 96.0}
"""What a service may grow by, beyond what the first versions took: all that it remembers to be fast is bounded."""
LAST_SHARE = 0.95  # of the time, after which no more is fed

_FIRST: Final = 10

Json = dict[str, Any]
Feed = Callable[[Json, Json, Json], None]


def versions(objects: int, size: int) -> Iterator[tuple[Json, Json, Json]]:
    """A Node, a NodeMetric and a pending Pod, each as large as the last version and different all over.

    Args:
        objects: How many versions.
        size: How many labels, values and entries each has.
    """
    for number in range(objects):
        fresh = {f"team-{number}/{each}": f"value-{number}-{each}" for each in range(size)}
        amounts = json.dumps({name: str(each + 1) for each, name in enumerate(list(fresh)[:100])})
        few = list(fresh)[: size // 10]
        annotations = {
            "node.koordinator.sh/raw-allocatable": amounts,
            "scheduling.koordinator.sh/usage-thresholds": f'{{"usageThresholds":{amounts}}}',
            "node.koordinator.sh/colocation-strategy": json.dumps({"nodePredictPolicy": {"parameters": few}}),
            "scheduling.koordinator.sh/load-estimated-scaling-factors": json.dumps(dict.fromkeys(fresh, 90)),
        }
        term = {"topologyKey": "zone", "labelSelector": {"matchLabels": dict.fromkeys(few, "x")}}
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        yield (
            {
                "metadata": {"name": "n", "uid": "n", "annotations": annotations, "labels": fresh},
                "status": {"allocatable": {"cpu": "9", "memory": "9Gi"}, "capacity": {"cpu": "9", "memory": "9Gi"}},
            },
            {
                "metadata": {"name": "n", "uid": "m", "labels": fresh},
                "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}, "predictPolicy": {"parameters": fresh}},
                "status": {"podsMetric": [{"namespace": "t", "name": name} for name in few], "shadow": fresh},
            },
            {
                "metadata": {"namespace": "t", "name": "p", "uid": "p", "labels": fresh, "annotations": annotations},
                "spec": {
                    "affinity": {"podAffinity": terms, "podAntiAffinity": terms},
                    "containers": [{"name": "c", "resources": {"requests": dict.fromkeys(few, f"{number + 1}m")}}],
                },
            },
        )


def scheduler() -> Feed:
    """An extender's cache and plugins, and the extender that is asked about the Pod."""
    import numpy as np  # noqa: PLC0415 - each service is measured alone

    from scheduler_plugins.extender.service import Answering, Extender, Mode  # noqa: PLC0415
    from scheduler_plugins.extender.wire import Arguments  # noqa: PLC0415
    from scheduler_plugins.framework.cycle import Cycle, Enabled  # noqa: PLC0415
    from scheduler_plugins.framework.shortlist import Shortlist  # noqa: PLC0415
    from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling  # noqa: PLC0415
    from scheduler_plugins.plugins.load_aware import LoadAware  # noqa: PLC0415
    from scheduler_plugins.snapshot.cache import ClusterCache  # noqa: PLC0415

    load_aware = LoadAware(allow_customize_estimation=True).defaulted()
    plugins = {"LoadAwareScheduling": load_aware, "CapacityScheduling": CapacityScheduling().defaulted()}
    cache = ClusterCache(load_aware.load_rules(), plugins)
    cycle = Cycle([Enabled(name, 1.0, plugin) for name, plugin in plugins.items()])
    extender = Extender(cache, cycle, Answering(Mode.SHORTLIST, Shortlist(1, 0)), lambda: 0.0, np.random.default_rng(1))

    def feed(node: Json, node_metric: Json, pod: Json) -> None:
        cache.put_node(node)
        cache.put_node_metric(node_metric)
        cache.put_pod(pod, 0.0)
        extender.filter(Arguments(pod, ["n"]))

    return feed


def manager() -> Feed:
    """The manager's memory of the cluster, with what formulas read of it."""
    from crds.colocation import ColocationConfig  # noqa: PLC0415
    from manager.cluster import ClusterState  # noqa: PLC0415
    from manager.config.merge import effective_strategy  # noqa: PLC0415
    from manager.inputs.pod import PodInputs  # noqa: PLC0415

    cluster, config = ClusterState(), ColocationConfig()

    def feed(node: Json, node_metric: Json, pod: Json) -> None:
        cluster.put_node(node)
        cluster.put_node_metric(node_metric, 0.0)
        cluster.put_pod(PodInputs.from_object({**pod, "spec": {**pod["spec"], "nodeName": "n"}}))
        metadata = cluster.nodes["n"]["metadata"]
        effective_strategy(config, metadata["labels"], metadata["annotations"])

    return feed


def agent() -> Feed:
    """What an agent takes of its Node, its Pods, and the answer to its report."""
    from agent.sources.node import read_node  # noqa: PLC0415
    from agent.sources.pod import ApiPods  # noqa: PLC0415
    from headroom import kube  # noqa: PLC0415

    nobody: Any = None
    pods = ApiPods(nobody, "n")

    def feed(node: Json, _node_metric: Json, pod: Json) -> None:
        read_node(node)
        pods.apply(kube.Changed("MODIFIED", pod))

    return feed


SERVICES: Final[Mapping[str, Callable[[], Feed]]] = {"agent": agent, "manager": manager, "scheduler": scheduler}


def grown(service: str, objects: int, size: int, until: Callable[[], bool] = lambda: False) -> tuple[float, int]:
    """By how much this process's peak grows while a service is fed, and how many versions it was fed. [MiB]"""
    feed, before, fed = SERVICES[service](), 0.0, 0
    for version in versions(objects, size):
        feed(*version)
        fed += 1
        if fed == _FIRST:
            before = peak_mib()
        if until():
            break
    return peak_mib() - before, fed


def peak_mib() -> float:
    """The most memory that this process has had. [MiB]"""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(service: str, objects: int, size: int, seconds: float) -> tuple[float, int]:
    """As `grown`, in a process of its own that ends after a time."""
    words = [sys.executable, "-m", "tools.soak.large_objects", f"--feed={service}", f"--objects={objects}"]
    words += [f"--size={size}", f"--seconds={seconds}"]
    found = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    return float(found[0]), int(found[1])


def trial(progress: Progress) -> None:
    """Feed each service with large objects."""
    for waiting, service in zip(range(len(SERVICES), 0, -1), SERVICES, strict=True):
        progress.log(f"feeding the {service}")
        growth, fed = measured(service, OBJECTS, LABELS, progress.left(LAST_SHARE) / waiting)
        most = GROWTH_MIB[service]
        what = f"the {service} grows by at most {most:.0f} MiB over {OBJECTS:,} large objects"
        progress.check(what, f"{growth:.0f} MiB over {fed:,}", passed=growth <= most and fed > _FIRST)


def _fed(arguments: list[str]) -> None:
    """Feed one service and print what `grown` says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--feed", choices=SERVICES, required=True)
    parser.add_argument("--objects", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args(arguments)
    progress = Progress(options.seconds)
    print(*grown(options.feed, options.objects, options.size, lambda: progress.left() <= 0))


if __name__ == "__main__":
    if any(word.startswith("--feed") for word in sys.argv):
        _fed(sys.argv[1:])
    else:
        run(trial)
