"""The agent on a real node, beside kubelet and known loads: measurements, predictions and reports.

One cluster and one set of pods for the whole module. The kubelet's figures are taken first and again in the test that
compares them, so that the minute between them is spent with the other tests.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from crds.quantity import milli_value, value
from tests.e2e import loads
from tests.e2e.agent_node import CONFIG, AgentNode, Json, average, spent, unix, usages, wait
from tools.devcluster import Cluster, ClusterSpec

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

MEBIBYTE = 1 << 20
COMPARED_SECONDS = 60.0
CPU_TOLERANCE = 0.03
MEMORY_TOLERANCE = 0.03
MEMORY_TOLERANCE_BYTES = 2 * MEBIBYTE
LOAD_TOLERANCE = 0.05
WINDOW_SECONDS = CONFIG["metricAggregateDurationSeconds"]  # what a report's usage is the mean of
START_SECONDS = 20.0  # within this time a load holds its memory and burns at its rate


Counters = dict[str, tuple[float, float]]
"""Kubelet's CPU counters: pod -> time [seconds since 1970] and value [core-seconds]."""


@dataclass(frozen=True)
class Beginning:
    """The node, and what kubelet said of its pods at the beginning."""

    node: AgentNode
    counters: Counters


@pytest.fixture(scope="module")
def beginning(request: pytest.FixtureRequest, real_node_requirements: None) -> Iterator[Beginning]:  # noqa: ARG001 - it skips
    """Agent, manager and all loads at work."""
    with Cluster(ClusterSpec(real_node=True)) as cluster:
        node = AgentNode(cluster)
        node.install()
        node.start_loads()
        # What kubelet says at first may be of their start, when they burn much more.
        yield Beginning(node, _counters(node, later_than=time.time()))
        if request.session.testsfailed:
            cluster.keep_logs()


def _counters(node: AgentNode, later_than: float) -> Counters:
    """The counters of all loads, each as soon as kubelet has read it after a moment."""
    result: Counters = {}

    def look() -> bool:
        now = node.counters()
        result.update({name: one for name, one in now.items() if one[0] > later_than and name not in result})
        return all(node.key(load) in result for load in loads.ALL)

    wait(look, seconds=later_than - time.time() + 120, what=f"counters of all loads: {result}")
    return result


@pytest.fixture
def node(beginning: Beginning) -> AgentNode:
    return beginning.node


def _policy(**changes: Any) -> Json:  # noqa: ANN401 - a policy's fields
    return {**CONFIG, "nodePredictPolicy": {**CONFIG["nodePredictPolicy"], **changes}}


def _prediction(node: AgentNode) -> Json:
    result: Json = node.status().get("prediction") or {}
    return result


def _class(prediction: Json, name: str = "prod") -> Json:
    return next((cls_ for cls_ in prediction.get("classes") or [] if cls_["name"] == name), {})


def test_cold_becomes_ready(node: AgentNode) -> None:
    """By the policy as shipped all is cold and says so; with a short cold start it is ready, without a restart."""
    agent, cached = node.restarts(), node.key(loads.KNOWN)
    wait(lambda: cached in _prediction(node).get("pods", {}).get("coldNames", ()), seconds=120, what=f"{cached} cold")
    assert _prediction(node)["pods"]["warm"] == 0
    cold = node.condition("PredictionReady")
    assert cold["status"] == "False"
    node.configure(_policy(coldStartPeriodSeconds=10))
    wait(lambda: node.condition("PredictionReady")["status"] == "True", seconds=120, what="a prediction that is ready")
    ready = node.condition("PredictionReady")
    assert unix(ready["lastTransitionTime"]) > unix(cold["lastTransitionTime"])
    assert _prediction(node)["pods"]["warm"] > 0
    assert node.restarts() == agent


@dataclass(frozen=True)
class Compared:
    """The same pods over the same time, by "namespace/name"."""

    counters: tuple[Counters, Counters]
    summary: dict[str, Json]
    stored: dict[str, dict[str, list[tuple[float, float]]]]  # stored samples: metric -> pod -> time and value

    def ours(self, metric: str, name: str) -> float:
        """The agent's sample of memory nearest to kubelet's last look."""
        when = unix(self.summary[name]["memory"]["time"])
        return min(self.stored[metric][name], key=lambda sample: abs(sample[0] - when))[1]


@pytest.fixture(scope="module")
def compared(beginning: Beginning) -> Compared:
    """Kubelet's figures and the agent's, of more than a minute."""
    node, first = beginning.node, beginning.counters
    last = _counters(node, later_than=max(at for at, _ in first.values()) + COMPARED_SECONDS)
    summary = node.summary()
    return Compared((first, last), summary, node.samples("cpu", "memory", "memory_with_page_cache"))


@pytest.mark.quiet
@pytest.mark.long
def test_cpu_agrees_with_kubelet(node: AgentNode, compared: Compared) -> None:
    """Over more than a minute, our average of each pod is within 3 % of what kubelet's counter says."""
    observed = {}
    for load in loads.ALL:
        name = node.key(load)
        (start, before), (end, after) = compared.counters[0][name], compared.counters[1][name]
        observed[name] = (average(compared.stored["cpu"][name], start, end), (after - before) / (end - start))
    assert not [name for name, (ours, theirs) in observed.items() if abs(ours / theirs - 1) > CPU_TOLERANCE], observed


@pytest.mark.long
def test_memory_agrees_with_kubelet(node: AgentNode, compared: Compared) -> None:
    """Memory of pods with anonymous memory alone is kubelet's rssBytes, within 3 % or 2 MiB."""
    observed = {}
    for load in loads.ALL:
        if load.anonymous_alone:
            name = node.key(load)
            observed[name] = (compared.ours("memory", name), compared.summary[name]["memory"]["rssBytes"])
            assert observed[name][1] >= load.mebibytes * MEBIBYTE
    allowed = {name: max(MEMORY_TOLERANCE * theirs, MEMORY_TOLERANCE_BYTES) for name, (_, theirs) in observed.items()}
    assert not [name for name, (ours, theirs) in observed.items() if abs(ours - theirs) > allowed[name]], observed
    assert len(observed) == 4


@pytest.mark.long
def test_files_count_as_documented(compared: Compared) -> None:
    """docs/memory.md: a tmpfs counts as memory, though not as rss; page cache counts only if configured."""
    tmpfs, reader = f"{loads.NAMESPACE}/{loads.TMPFS.name}", f"{loads.NAMESPACE}/{loads.READER.name}"
    near = 4 * MEBIBYTE
    theirs = compared.summary[tmpfs]["memory"]
    files = loads.TMPFS.shared_mebibytes * MEBIBYTE
    assert compared.ours("memory", tmpfs) == pytest.approx(theirs["rssBytes"] + files, abs=near)
    theirs = compared.summary[reader]["memory"]
    files = loads.READER.file_mebibytes * MEBIBYTE
    ours, cached = (compared.ours(metric, reader) for metric in ("memory", "memory_with_page_cache"))
    assert ours == pytest.approx(theirs["rssBytes"], abs=near)
    # The kernel keeps a few dozen pages per CPU back from such counts.
    assert cached >= ours + files - MEBIBYTE
    # What kubelet calls the working set leaves out the pages on the inactive list, which may be none or all of them.
    assert ours - near <= theirs["workingSetBytes"] <= theirs["usageBytes"]


def test_known_load_is_reported(node: AgentNode) -> None:
    """A pod that burns 400 milli-cores and holds 200 MiB is reported within 5 % of its own account."""
    started = unix(node.get("pod", "-n", loads.NAMESPACE, loads.KNOWN.name)["status"]["startTime"])
    full_window = started + WINDOW_SECONDS + START_SECONDS  # its start has left the window
    wait(lambda: unix(node.status()["updateTime"]) > full_window, seconds=150, what="a report of a whole window")
    status = node.status()
    end, usage = unix(status["updateTime"]), usages(status)[node.key(loads.KNOWN)]
    wait(lambda: node.account(loads.KNOWN)[-1][0] > end, seconds=120, what="its own account of that time")
    # On a busy machine it gets less than 400 milli-cores and catches up later: it reports its actual usage.
    account = node.account(loads.KNOWN)
    burned = 1000 * spent(account, end - WINDOW_SECONDS, end) / WINDOW_SECONDS
    assert milli_value(usage["cpu"]) == pytest.approx(burned, rel=LOAD_TOLERANCE)
    assert burned > loads.KNOWN.milli_cores / 10
    # It catches up on held-back time: since its beginning it has burned at most its share.
    (first, _), (last, _) = account[0], account[-1]
    assert 1000 * spent(account, first, last) / (last - first) <= loads.KNOWN.milli_cores * 1.2
    # The interpreter is 3 % of it.
    assert value(usage["memory"]) == pytest.approx(loads.KNOWN.mebibytes * MEBIBYTE, rel=LOAD_TOLERANCE)


@pytest.mark.long
def test_doubled_load_is_reported_fast(node: AgentNode) -> None:
    """When the load doubles, the prediction moves in reports that leave the full report's time alone."""
    eager = {"model": "nsigma-v2", "parameters": {"n": 3, "capAtHighest": False}, "resourceDiffThresholdPercent": 1}
    node.configure({**_policy(coldStartPeriodSeconds=10, **eager), "metricReportIntervalSeconds": 60})
    wait(
        lambda: _prediction(node).get("policy", {}).get("parameters") == eager["parameters"],
        seconds=120,
        what="the policy in force",
    )
    before = value(_class(_prediction(node))["usage"]["memory"])
    node.set_load(loads.KNOWN, "share", 2 * loads.KNOWN.milli_cores / 1000)
    node.set_load(loads.KNOWN, "mib", 2 * loads.KNOWN.mebibytes)
    observed: list[Json] = []

    def fast() -> bool:
        """Return whether a partial report, or one before it since the last full report, has the load."""
        status = node.status()
        if not observed or observed[-1]["updateTime"] != status["updateTime"]:
            observed.append(status)
        newer = unix(status["prediction"]["time"]) > unix(observed[-1]["prediction"]["time"])
        return newer and value(_class(status["prediction"])["usage"]["memory"]) >= before + 20 * MEBIBYTE

    wait(fast, seconds=150, what="a fast report that has it")
