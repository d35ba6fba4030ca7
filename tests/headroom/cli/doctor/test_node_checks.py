"""Checks of what happens on the nodes, and of what else is in the cluster, with one thing wrong at a time."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headroom import kube
from headroom.cli.doctor import permissions as rights
from headroom.cli.doctor.checks.network_policies import admits, selecting
from headroom.cli.doctor.checks.reports import detected
from headroom.cli.doctor.finding import Severity
from headroom.cli.doctor.node_metric import NodeMetricSummary
from tests.headroom.cli.doctor.installation import POLICIES, healthy
from tests.headroom.cli.doctor.world import (
    NAMESPACE,
    NOW,
    World,
    found,
    lease,
    moment,
    node,
    node_metric,
    one,
    workload,
)

INFO, WARNING, ERROR, OK = Severity.INFO, Severity.WARNING, Severity.ERROR, Severity.OK
Json = dict[str, Any]


def _agent(world: World) -> Json:
    return world.at(rights.PODS, "agent-0")


def _unready(world: World, **state: Any) -> None:  # noqa: ANN401
    status = _agent(world)["status"]
    status["conditions"] = [{"type": "Ready", "status": "False"}]
    status["containerStatuses"] = [{"name": "agent", "ready": False, "restartCount": 0, "state": state}]


def _metric(world: World, obj: Json) -> None:
    world.add(rights.NODE_METRICS, obj)


def _young(world: World) -> None:
    _agent(world)["status"]["startTime"] = moment(NOW - 30)


def _taint(world: World, key: str) -> None:
    world.at(rights.NODES, "node-1")["spec"] = {"taints": [{"key": key, "effect": "NoSchedule"}]}
    world.at(rights.DAEMON_SETS, "headroom-agent")["spec"]["template"]["spec"]["tolerations"] = []


def _without_report(world: World) -> None:
    _metric(world, {"metadata": {"name": "node-1"}, "spec": {}})


@pytest.mark.parametrize(
    ("change", "severity", "text"),
    [
        (lambda world: world.remove(_agent(world)), ERROR, "1 node without an agent: node-1"),
        (
            lambda world: _unready(world, waiting={"reason": "ImagePullBackOff", "message": "no such image"}),
            ERROR,
            "1 agent not ready (agent: ImagePullBackOff, no such image): node-1",
        ),
        (lambda world: _unready(world, running={}), ERROR, "not ready (its readiness probe fails)"),
        (lambda world: world.at(rights.NODES, "node-1")["status"].pop("conditions"), WARNING, "1 node not ready"),
        (
            lambda world: world.remove(world.at(rights.NODE_METRICS, "node-1")),
            ERROR,
            "1 node without a NodeMetric, which the manager makes: node-1",
        ),
        (_without_report, ERROR, "1 agent never reported: node-1"),
        (lambda world: _metric(world, node_metric("node-1", ago=1000)), ERROR, "node-1 (1000 s ago)"),
        (lambda world: _metric(world, node_metric("node-1", ago=200)), WARNING, "late, not yet too old"),
        (lambda world: _taint(world, "gpu"), INFO, "keeps agents away from 1 node"),
    ],
)
async def test_agents(change: Callable[[World], object], severity: Severity, text: str) -> None:
    """Nodes without an agent, agents that are not ready, and reports that are absent, late or too old."""
    world = healthy()
    change(world)
    finding = await one(world, "agents", severity)
    assert text in finding.message
    assert finding.objects == ("node-1",)


async def test_agents_that_no_node_may_have() -> None:
    """Where agents are kept away from some nodes somebody will have meant that; from all, it is a warning."""
    world = healthy()
    world.at(rights.DAEMON_SETS, "headroom-agent")["spec"]["template"]["spec"]["nodeSelector"] = {"no": "where"}
    finding = await one(world, "agents", WARNING)
    assert finding.message.startswith("No node is measured: agent.nodeSelector or a taint keeps agents away from")
    assert "get daemonset headroom-agent" in finding.fix


async def test_taints_of_trouble_count_as_tolerated() -> None:
    """Every DaemonSet tolerates the taints of nodes in trouble, so an agent is expected there."""
    world = healthy()
    _taint(world, "node.kubernetes.io/unschedulable")
    assert await found(world, "agents") == []


@pytest.mark.parametrize(
    "change", [_without_report, lambda world: world.remove(world.at(rights.NODE_METRICS, "node-1"))]
)
async def test_first_minutes(change: Callable[[World], object]) -> None:
    """An agent that has just started is not blamed for having reported nothing yet."""
    world = healthy()
    _young(world)
    change(world)
    assert "1 node yet to report for the first time: node-1" in (await one(world, "agents", INFO)).message
    _unready(world, running={})
    findings = await found(world, "agents")
    assert {each.severity for each in findings} == {INFO}
    assert "1 agent just starting: node-1" in findings[0].message


async def test_excluded_nodes() -> None:
    """Nodes that the manager is told to leave alone need no agent; a limit of the config counts for ages."""
    world = healthy()
    world.add(rights.NODES, node("virtual-1"))["metadata"]["labels"]["type"] = "virtual-kubelet"
    assert await found(world, "agents") == []
    world.at(rights.CONFIG_MAPS, "slo-controller-config")["data"] = {
        "colocation-config": '{"enable": true, "degradeTimeMinutes": 60}'
    }
    _metric(world, node_metric("node-1", ago=1000))
    assert (await one(world, "agents", WARNING)).objects == ("node-1",)


@pytest.mark.parametrize(
    ("ahead", "severity", "text"),
    [
        (-45.0, WARNING, "behind, so their reports seem older than they are: node-1 (45 s)"),
        (45.0, WARNING, "ahead, so their reports seem newer than they are: node-1 (45 s)"),
        (-2000.0, ERROR, "nothing is published there: node-1 (2000 s)"),
    ],
)
async def test_clocks(ahead: float, severity: Severity, text: str) -> None:
    """A node's clock is compared with the API server's note of when it took the report, however old that is."""
    world = healthy()
    _metric(world, node_metric("node-1", ago=100.0, ahead=ahead))
    assert text in (await one(world, "clocks", severity)).message
    assert await found(world, "agents") == []


def test_clock_of_a_fast_report() -> None:
    """The later of full report and prediction belongs to the last write; without an account nothing is known."""
    metric = node_metric("node-1", ago=10.0)
    metric["status"]["updateTime"] = moment(NOW - 50)
    assert NodeMetricSummary.of(metric).ahead == 0.0
    assert NodeMetricSummary.of(metric).age(NOW) == 50.0
    metric["metadata"]["managedFields"] = []
    assert NodeMetricSummary.of(metric).ahead is None
    assert NodeMetricSummary.of(metric).age(NOW) == 50.0
    metric["status"]["updateTime"] = "yesterday"
    assert NodeMetricSummary.of(metric).age(NOW) is None


async def test_no_reports_yet() -> None:
    """Without reports nothing is known of clocks and machines."""
    world = healthy()
    for name in ("node-1", "node-2"):
        _metric(world, {"metadata": {"name": name}})
    assert "nothing is known of their clocks" in (await one(world, "clocks", INFO)).message
    assert "nothing is known of the machines" in (await one(world, "hosts", INFO)).message


def _condition(world: World, kind: str, reason: str, message: str) -> None:
    conditions = world.at(rights.NODE_METRICS, "node-1")["status"]["conditions"]
    conditions[:] = [each for each in conditions if each["type"] != kind]
    conditions.append({"type": kind, "status": "False", "reason": reason, "message": message})


async def test_machines_by_their_reports() -> None:
    """What an agent reports against its machine is a warning; that it still learns is told; Mid is not its business."""
    world = healthy()
    _condition(world, "Collecting", "MemoryControllerMissing", "Boot the node with cgroup_enable=memory.")
    finding = await one(world, "hosts", WARNING)
    assert "(MemoryControllerMissing): node-1. Boot the node with cgroup_enable=memory." in finding.message
    world = healthy()
    _condition(world, "PredictionReady", "CollectingHistory", "2 h of 24 h.")
    assert "CollectingHistory" in (await one(world, "hosts", INFO)).message


class Proxied(World):
    """An API server that reaches some agents."""

    async def _page(self, text: str) -> AsyncIterator[bytes]:
        yield text.encode()

    @asynccontextmanager
    async def stream(self, path: str, params: Mapping[str, str], silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """A page of a pod."""
        assert (params, silence > 0) == ({}, True)
        if path not in self.pages:
            raise kube.ApiUnavailable("no route", 503)
        yield self._page(self.pages[path])


def _facts(**labels: str) -> str:
    shown = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"# HELP x y\nheadroom_agent_detected{{{shown}}} 1.0\nheadroom_agent_pods 3.0\n"


async def test_machines_by_their_agents() -> None:
    """Who may ask agents learns their cgroup version and driver; a missing memory controller is a warning."""
    world = Proxied()
    world.objects = healthy().objects
    world.mine = lambda asked: asked.get("subresource") == "proxy"
    assert (await one(world, "hosts", INFO)).objects == ("node-1", "node-2")
    where = f"/api/v1/namespaces/{NAMESPACE}/pods/agent-{{}}:9316/proxy/metrics"
    world.pages[where.format(0)] = _facts(cgroup="v2", driver="systemd", memory="v2", pods_in="kubepods.slice")
    world.pages[where.format(1)] = _facts(cgroup="v1", driver="cgroupfs", memory="none", pods_in="")
    said = await found(world, "hosts", OK)
    assert "1 with cgroup v1, cgroupfs driver; 1 with cgroup v2, systemd driver" in said[0].message
    memory, pods = await found(world, "hosts", WARNING)
    assert "has no memory controller" in memory.message
    assert "find no cgroups of pods: node-2" in pods.message


def test_detected() -> None:
    """A page without the metric says nothing."""
    assert detected("headroom_agent_pods 1\n") is None
    assert detected(_facts(cgroup="v2")) == {"cgroup": "v2"}


def _scheduler_config(world: World, text: str, key: str = "kube-scheduler.yaml") -> None:
    world.at(rights.CONFIG_MAPS, "headroom-scheduler")["data"][key] = text


def _rival(world: World) -> None:
    rival = workload("other-scheduler", 1, "--leader-elect-resource-name=headroom-scheduler")
    rival["metadata"]["namespace"] = "elsewhere"
    world.add(rights.DEPLOYMENTS, rival)


_STOCK = "leaderElection: {resourceName: headroom-scheduler}\nprofiles: [{schedulerName: default-scheduler}]"


@pytest.mark.parametrize(
    ("change", "severity", "text"),
    [
        (_rival, WARNING, "Deployment elsewhere/other-scheduler runs a scheduler of the same name"),
        (lambda world: _scheduler_config(world, _STOCK), WARNING, "takes the name default-scheduler"),
        (lambda world: _scheduler_config(world, "{"), OK, "2 of 2 replicas of headroom-scheduler"),
        (
            lambda world: _scheduler_config(world, "plugins: [{name: LoadAwear}]", "profile.yaml"),
            ERROR,
            "LoadAwear",
        ),
        (
            lambda world: world.remove(world.at(rights.CONFIG_MAPS, "headroom-scheduler")),
            ERROR,
            "without which no scheduler starts",
        ),
        (lambda world: world.add(rights.LEASES, lease("headroom-scheduler", "x", 99)), ERROR, "No scheduler leads"),
        (lambda world: world.add(rights.LEASES, lease("headroom-scheduler", "x_1")), WARNING, "none of our pods"),
        (
            lambda world: world.at(rights.DEPLOYMENTS, "headroom-scheduler")["spec"].update(replicas=0),
            ERROR,
            "scaled to 0",
        ),
        (
            lambda world: world.at(rights.DEPLOYMENTS, "headroom-scheduler")["status"].update(readyReplicas=1),
            WARNING,
            "1 of 2 replicas",
        ),
    ],
)
async def test_scheduler(change: Callable[[World], object], severity: Severity, text: str) -> None:
    """A scheduler that is not there, has a wrong profile, or shares its name with another."""
    world = healthy()
    change(world)
    assert text in (await one(world, "scheduler", severity)).message


def _extender(world: World, **change: Any) -> None:  # noqa: ANN401
    statuses = world.at(rights.PODS, "scheduler-0")["status"]["containerStatuses"]
    next(each for each in statuses if each["name"] == "extender").update(change)


def _refused_profile(world: World) -> None:
    ended = {"terminated": {"exitCode": 2, "reason": "Error", "message": "plugins[0].name: unknown"}}
    status = world.at(rights.PODS, "scheduler-0")["status"]
    status["initContainerStatuses"] = [{"name": "check", "ready": False, "state": ended}]


@pytest.mark.parametrize(
    ("change", "severity", "text"),
    [
        (lambda world: _extender(world, ready=False), ERROR, "does not answer on loopback (not ready yet); pods are"),
        (lambda world: _extender(world, restartCount=9), WARNING, "was started again 9 times"),
        (_refused_profile, ERROR, "its profile or flags are wrong"),
    ],
)
async def test_extender(change: Callable[[World], object], severity: Severity, text: str) -> None:
    """An extender that kube-scheduler cannot reach, that dies again and again, or that refuses to start."""
    world = healthy()
    change(world)
    assert text in (await one(world, "extender", severity)).message


@pytest.mark.parametrize("restarts", [0, 1])
async def test_log_of_extender(restarts: int) -> None:
    """Whose extender has never ended is told to read its log, as there is none of a run before."""
    world = healthy()
    _extender(world, ready=False, restartCount=restarts)
    fix = (await one(world, "extender", ERROR)).fix
    assert fix.endswith("-c extender --previous" if restarts else "-c extender")


def _policy(name: str, **spec: Any) -> Json:  # noqa: ANN401
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"podSelector": {}, **spec}}


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"policyTypes": ["Ingress"]}, ["reach the manager's webhook"]),
        (
            {"policyTypes": ["Egress"]},
            ["of headroom-agent", "of headroom-manager", "of headroom-scheduler"],
        ),
        ({"ingress": [{"ports": [{"port": "webhook"}]}]}, []),
        ({"ingress": [{"ports": [{"port": 9000, "endPort": 9999}]}]}, []),
        ({"ingress": [{}]}, []),
        ({"ingress": [{"ports": [{"port": 9443, "protocol": "UDP"}]}]}, ["reach the manager's webhook"]),
        ({"egress": [{"ports": [{"port": 6443}]}], "policyTypes": ["Egress"]}, []),
        ({"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Egress", "Ingress"]}, []),
    ],
)
async def test_network_policies(spec: Json, texts: list[str]) -> None:
    """Policies that let no API server in or our pods not out are named; those of other pods do not matter."""
    world = healthy()
    for name in POLICIES:
        world.remove(world.at(rights.NETWORK_POLICIES, name))
    world.add(rights.NETWORK_POLICIES, _policy("deny", **spec))
    messages = [each.message for each in await found(world, "network-policies")]
    assert len(messages) == len(texts)
    assert all(text in message for text, message in zip(texts, messages, strict=True))


def test_policies_add_up() -> None:
    """What one policy refuses another may admit."""
    deny, admit = _policy("deny", policyTypes=["Egress"]), _policy("admit", egress=[{"ports": [{"port": 443}]}])
    chosen = selecting([deny, admit], {}, "Egress")
    assert chosen == [deny, admit]
    assert admits(chosen, "Egress", 443)
    assert not admits(chosen, "Egress", 80)
    assert selecting([deny], {}, "Ingress") == []


def _foreign(world: World, name: str, namespace: str = "koordinator-system") -> None:
    obj = workload(name, 1)
    obj["metadata"]["namespace"] = namespace
    world.add(rights.DAEMON_SETS if name == "koordlet" else rights.DEPLOYMENTS, obj)


def _webhook(world: World) -> None:
    world.add(rights.MUTATING, {"metadata": {"name": rights.KOORDINATOR_WEBHOOKS[1]}, "webhooks": [{}]})


def _other_writer(world: World) -> None:
    entries = world.at(rights.NODE_METRICS, "node-1")["metadata"]["managedFields"]
    entries.append({**entries[0], "manager": "somebody"})


@pytest.mark.parametrize(
    ("change", "severity", "text"),
    [
        (
            lambda world: _foreign(world, "koordlet"),
            WARNING,
            "koordinator-system/koordlet is alive and",
        ),
        (lambda world: _foreign(world, "koord-manager"), WARNING, "koord-manager is alive"),
        (lambda world: _foreign(world, "koord-scheduler"), INFO, "koord-scheduler runs beside Headroom"),
        (_webhook, INFO, "koord-mutating-webhook-configuration is registered"),
        (_other_writer, WARNING, "are written by somebody as well"),
    ],
)
async def test_koordinator(change: Callable[[World], object], severity: Severity, text: str) -> None:
    """Parts of a live Koordinator are named; those that do the same work as ours are a warning."""
    world = healthy()
    change(world)
    assert text in (await one(world, "koordinator", severity)).message


async def test_koordinators_agent_alone() -> None:
    """Where our agent is left out, Koordinator's is what was chosen."""
    world = healthy()
    world.remove(world.at(rights.DAEMON_SETS, "headroom-agent"))
    _foreign(world, "koordlet")
    assert "as our headroom-agent would" in (await one(world, "koordinator", INFO)).message
