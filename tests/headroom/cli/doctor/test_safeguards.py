"""What the chart puts around the services, a cluster with nothing of ours, and fixes that can be pasted."""

from collections.abc import Callable
from typing import Any

import pytest

from headroom.cli.doctor import permissions as rights
from headroom.cli.doctor.finding import Severity, warning
from headroom.cli.doctor.permissions import Permission
from tests.headroom.cli.doctor.installation import POLICIES, healthy
from tests.headroom.cli.doctor.world import NAMESPACE, World, found, lease, node_metric, one, told, workload

INFO, WARNING, ERROR, OK = Severity.INFO, Severity.WARNING, Severity.ERROR, Severity.OK
UPGRADE = f"helm upgrade headroom charts/headroom -n {NAMESPACE} --reset-then-reuse-values"
BY_HAND = f"{UPGRADE} --force-conflicts"


def _without(*gone: Permission) -> World:
    world = healthy()
    for right in gone:
        world.remove(world.at(right, right.names[0]))
    return world


@pytest.mark.parametrize(
    ("gone", "severity", "said", "value"),
    [
        (
            (rights.ADMISSION_POLICIES,),
            WARNING,
            "no ValidatingAdmissionPolicy headroom-agent-own-node",
            "admissionPolicy",
        ),
        (
            (rights.ADMISSION_BINDINGS,),
            WARNING,
            "no ValidatingAdmissionPolicyBinding headroom-agent-own-node",
            "admissionPolicy",
        ),
        (
            (rights.ADMISSION_POLICIES, rights.ADMISSION_BINDINGS),
            WARNING,
            "no ValidatingAdmissionPolicy and no ValidatingAdmissionPolicyBinding headroom-agent-own-node",
            "admissionPolicy",
        ),
        ((rights.FLOW_SCHEMAS,), WARNING, "no FlowSchema headroom-agents", "flowSchema"),
        ((rights.PRIORITY_LEVELS,), WARNING, "no PriorityLevelConfiguration headroom-agents", "flowSchema"),
        (
            (rights.FLOW_SCHEMAS, rights.PRIORITY_LEVELS),
            INFO,
            "no FlowSchema and no PriorityLevelConfiguration headroom-agents",
            "flowSchema",
        ),
    ],
)
async def test_safeguard_is_gone(gone: tuple[Permission, ...], severity: Severity, said: str, value: str) -> None:
    """What is gone is named, with the value that may have switched it off, and what brings it back."""
    finding = await one(_without(*gone), "safeguards", severity)
    assert said in finding.message
    assert f"value {value}.enabled, true by default" in finding.message
    assert finding.fix == f"{UPGRADE} --set {value}.enabled=true"


async def test_node_status_policy_is_gone() -> None:
    """Without its policy the manager's token may write all of a Node's status; without the manager nobody misses it."""
    world = healthy()
    world.remove(world.at(rights.ADMISSION_BINDINGS, rights.NODE_STATUS_POLICY))
    finding = await one(world, "safeguards", WARNING)
    assert "no ValidatingAdmissionPolicyBinding headroom-node-status" in finding.message
    assert "manager's token can write any field of a Node's status" in finding.message
    world.remove(world.at(rights.DEPLOYMENTS, "headroom-manager"))
    world.remove(world.at(rights.NETWORK_POLICIES, "headroom-manager"))
    assert await found(world, "safeguards") == []


async def test_network_policy_is_gone() -> None:
    """One of the chart's policies, and all of them; those of others do not count."""
    world = healthy()
    world.remove(world.at(rights.NETWORK_POLICIES, "headroom-manager"))
    assert "no NetworkPolicy headroom-manager (value" in (await one(world, "safeguards", WARNING)).message
    for name in {*POLICIES} - {"headroom-manager"}:
        world.remove(world.at(rights.NETWORK_POLICIES, name))
    world.add(rights.NETWORK_POLICIES, {"metadata": {"name": "theirs", "namespace": NAMESPACE}})
    finding = await one(world, "safeguards", WARNING)
    assert finding.objects == POLICIES
    assert finding.fix == f"{UPGRADE} --set networkPolicy.enabled=true"


async def test_safeguards_of_what_is_there() -> None:
    """Parts that are left out need none, and before Kubernetes 1.32 there is no admission policy."""
    world = _without(rights.ADMISSION_POLICIES, rights.ADMISSION_BINDINGS)
    world.version = {"gitVersion": "v1.31.4"}
    assert "Before Kubernetes 1.32" in (await one(world, "safeguards", INFO)).message
    world.version = {"gitVersion": "v1.36.2"}
    world.remove(world.at(rights.DAEMON_SETS, "headroom-agent"))
    world.remove(world.at(rights.FLOW_SCHEMAS, rights.AGENTS_QUEUE))
    world.remove(world.at(rights.NETWORK_POLICIES, "headroom-agent"))
    assert await found(world, "safeguards") == []
    for part in ("headroom-manager", "headroom-scheduler"):
        world.remove(world.at(rights.DEPLOYMENTS, part))
    assert "no part of Headroom" in (await one(world, "safeguards", INFO)).message


async def test_safeguards_with_fewer_rights() -> None:
    """What may not be read hides nothing of the rest."""
    world = healthy()
    world.refused.add(str(rights.ADMISSION_POLICIES))
    world.remove(world.at(rights.FLOW_SCHEMAS, rights.AGENTS_QUEUE))
    world.remove(world.at(rights.NETWORK_POLICIES, "headroom"))
    said = await found(world, "safeguards")
    assert [each.severity for each in said] == [WARNING, WARNING, INFO]
    assert str(rights.ADMISSION_POLICIES) in said[2].message


async def test_nothing_of_ours() -> None:
    """A cluster without Headroom gets one error: what installs it, and what to ask before."""
    ((check, finding),) = await told(World())
    assert (check, finding.severity) == ("install", ERROR)
    assert "Headroom is not installed" in finding.message
    assert "kubectl headroom doctor --preflight" in finding.message
    assert finding.fix == f"helm install headroom charts/headroom -n {NAMESPACE} --create-namespace"
    assert len(await told(World(), preflight=True)) > 1


@pytest.mark.parametrize("right", [rights.NAMESPACES, rights.DEPLOYMENTS, rights.DAEMON_SETS], ids=str)
async def test_nothing_that_may_be_seen(right: Permission) -> None:
    """Who may not look does not learn that there is nothing."""
    world = World()
    world.refused.add(str(right))
    assert "install" not in {name for name, _ in await told(world)}


async def test_elsewhere() -> None:
    """Where it is in another namespace, the fix is to look there."""
    world = World()
    world.add(rights.DAEMON_SETS, workload("headroom-agent", 2))["metadata"]["namespace"] = "elsewhere"
    finding = await one(world, "manager", ERROR)
    assert finding.message.endswith("Headroom is in elsewhere.")
    assert finding.fix == "kubectl headroom doctor -n elsewhere"


def _scaled(part: str) -> Callable[[World], Any]:
    return lambda world: world.at(rights.DEPLOYMENTS, part)["spec"].update(replicas=0)


def _profile(world: World) -> None:
    data = world.at(rights.CONFIG_MAPS, "headroom-scheduler")["data"]
    data["profile.yaml"] = "plugins:\n  - {: ]"


@pytest.mark.parametrize(
    ("change", "check", "fix"),
    [
        (_scaled("headroom-manager"), "manager", BY_HAND),
        (_scaled("headroom-scheduler"), "scheduler", BY_HAND),
        (lambda world: world.denied.add(("headroom-manager", "get", "secrets")), "rights", BY_HAND),
        (
            lambda world: world.at(rights.PRIORITY_CLASSES, "koord-mid").update(value=9100),
            "priority-classes",
            f"kubectl delete priorityclass koord-mid && {UPGRADE} --set priorityClasses.create=true",
        ),
        (_profile, "scheduler", f"{UPGRADE} -f values.yaml"),
        (
            lambda world: world.remove(world.at(rights.NODE_METRICS, "node-1")),
            "agents",
            f"kubectl -n {NAMESPACE} logs -l app.kubernetes.io/name=headroom-manager --tail=-1 --prefix",
        ),
        (
            lambda world: world.add(rights.NODE_METRICS, node_metric("node-1", ahead=-3600.0)),
            "clocks",
            "sudo timedatectl set-ntp true  # on the node",
        ),
        (
            lambda world: world.add(rights.LEASES, lease("headroom-scheduler", "strange_1")),
            "scheduler",
            "kubectl get pods -A | grep strange",
        ),
    ],
)
async def test_fix_is_one_command(change: Callable[[World], Any], check: str, fix: str) -> None:
    """A fix can be pasted as it stands, and the finding is one line whatever others say in it."""
    world = healthy()
    change(world)
    (finding,) = await found(world, check, WARNING, ERROR)
    assert finding.fix == fix
    assert "\n" not in finding.message


@pytest.mark.parametrize("restarts", [0, 3])
async def test_why_an_agent_is_not_ready(restarts: int) -> None:
    """The log where there is one, else what kubelet says."""
    world = healthy()
    status = world.at(rights.PODS, "agent-0")["status"]
    status["conditions"] = [{"type": "Ready", "status": "False"}]
    waiting = {"waiting": {"reason": "CrashLoopBackOff" if restarts else "ImagePullBackOff"}}
    status["containerStatuses"] = [{"name": "agent", "ready": False, "restartCount": restarts, "state": waiting}]
    wanted = "logs agent-0 --all-containers --prefix" if restarts else "describe pod agent-0"
    assert (await one(world, "agents", ERROR)).fix == f"kubectl -n {NAMESPACE} {wanted}"


def test_messages_are_one_line() -> None:
    """What a container or an API server said in several lines is told in one."""
    assert warning("It says:\n  no\n", "kubectl get pods").message == "It says: no"
