"""A cluster that LowRiskOverCommitment looks at, for short tests."""

from collections.abc import Mapping
from typing import Any, Final

from scheduler_plugins.plugins.low_risk_over_commitment import NAME, LowRiskOverCommitment
from scheduler_plugins.snapshot.arrays import Nodes
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.report import Statistic, Utilisation
from tests.scheduler_plugins.objects import NOW, Json, node, node_metric, pod

WATCHED: Final = "http://load-watcher:2020"  # `watcherAddress` of a plugin that is fed with readings


def percents(
    cpu: tuple[float, float] | None = None,
    memory: tuple[float, float] | None = None,
    *,
    measured: float = 0,
    smoothed: bool = False,
) -> Utilisation:
    """A provider's reading: (average, deviation) of cpu and memory; `measured` in seconds after NOW."""
    parts = [None if part is None else Statistic(*part) for part in (cpu, memory)]
    return Utilisation(parts[0], parts[1], NOW + measured, smoothed)


def reported(name: str = "n", updated: float | None = 0, **windows: Any) -> Json:  # noqa: ANN401 - type -> amounts
    """A NodeMetric with statistics by window, written m5=... for 5 minutes."""
    aggregated = {f"{window.removeprefix('m')}m0s": usage for window, usage in windows.items()}
    return node_metric(name, "1", "1Gi", updated=updated, aggregated=aggregated)


class Overcommitted:
    """A cache with the plugin and one node `n` of 4 cores and 8 GiB, as far as nothing else is said."""

    def __init__(self, **arguments: Any) -> None:  # noqa: ANN401 - any argument of the plugin
        self.plugin = LowRiskOverCommitment(**arguments).defaulted()
        self.cache = ClusterCache(LoadRules(), {NAME: self.plugin})
        self.cache.put_node(node("n", "4", "8Gi"))

    def put(self, *pods: Json, on: str = "n") -> "Overcommitted":
        for item in pods:
            self.cache.put_pod({**item, "spec": {**item["spec"], "nodeName": on}}, NOW)
        return self

    def read(self, **readings: Utilisation) -> "Overcommitted":
        self.cache.update_readings(NAME, readings)
        return self

    def nodes(self, *names: str, now: float = 0) -> Nodes:
        return self.cache.freeze(NOW + now).select(names or ("n",))[0]

    def score(self, item: Json | None = None, *names: str, now: float = 0) -> int | list[int]:
        """The score of the node, or of each node, for a pod; by default one that asks for 1 core and 1 GiB."""
        asked = self.cache.read(item or guaranteed("new", "1", "1Gi"))
        scores: list[int] = self.plugin.score(asked, self.nodes(*names, now=now)).tolist()
        return scores if names else scores[0]

    def explain(self, item: Json | None = None, now: float = 0) -> Mapping[str, Any]:
        return self.plugin.explain(self.cache.read(item or guaranteed("new", "1", "1Gi")), self.nodes(now=now))[0]


def guaranteed(name: str, cpu: str, memory: str) -> Json:
    return pod(name, {"cpu": cpu, "memory": memory}, {"cpu": cpu, "memory": memory})


def burstable(name: str, cpu: tuple[str, str], memory: tuple[str, str] = ("1Gi", "1Gi")) -> Json:
    return pod(name, {"cpu": cpu[0], "memory": memory[0]}, {"cpu": cpu[1], "memory": memory[1]})
