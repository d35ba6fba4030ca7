"""Five hundred pods at once on the real kube-scheduler: how they spread, and what is lost when programs are killed."""

import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from tests.audited import audited
from tests.scheduler_plugins.extenders import Extender, configuration, load_aware, profile, until
from tests.scheduler_plugins.stage import Stage, among
from tests.scheduler_plugins.troubled import DIES_WITH, FORGET, LATE
from tools.devcluster import Cluster
from tools.devcluster.process import Process

pytestmark = pytest.mark.cluster

PODS, NODES = 500, 50
MEAN = PODS / NODES
SHORTLIST, WEIGHTED, MORTAL, PAIR = "many-shortlist", "many-weighted", "many-mortal", "many-pair"
TROUBLED = "tests.scheduler_plugins.troubled"
HOT = "node(s) cpu usage exceed threshold"


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """Fifty nodes of 32 cores; both modes as shipped."""
    with Stage.open(cluster, "many", NODES) as stage:
        stage.add(SHORTLIST, profile("shortlist"))
        stage.add(WEIGHTED, profile("weighted"))
        stage.wait()
        yield stage


def burst(stage: Stage, scheduler: str, used: Mapping[str, float] | None = None) -> list[str]:
    """Have all pods wait in the same moment: their kube-scheduler is stopped meanwhile, or is not there yet.

    Args:
        stage: it has no other pods afterwards.
        scheduler: who schedules the pods.
        used: what nodes use; None: all but one, which is a little colder, are the same. [cores]
    """
    stage.clear()
    stage.settle(used or {stage.nodes[NODES // 2]: 3}, otherwise=4)
    process = running(stage, scheduler) if scheduler in stage.schedulers else None
    names = [f"{scheduler}-{number}" for number in range(PODS)]
    if process is not None:
        process.signal(signal.SIGSTOP)
    try:
        stage.create(*(stage.pod(name, scheduler, cpu="500m") for name in names))
    finally:
        if process is not None:
            process.signal(signal.SIGCONT)
    return names


def running(stage: Stage, scheduler: str) -> Process:
    """The process of a kube-scheduler."""
    process = stage.schedulers[scheduler].process
    assert process is not None
    return process


def bindings(stage: Stage) -> Counter[str]:
    """How often the API server bound each pod, by name."""
    found: Counter[str] = Counter()
    for entry in audited(stage.cluster, '"subresource":"binding"', f'"namespace":"{stage.name}"'):
        found[entry["objectRef"]["name"]] += entry["responseStatus"]["code"] == 201
    return found


def bound_once(stage: Stage, names: list[str]) -> bool:
    """Whether each of these pods is bound, and was just once.

    A kube-scheduler that is killed in the middle of a request gets no answer: the audit log then says of what was done
    that the client went away. So what counts is that a pod is bound, and that no second binding of it succeeded.
    """
    found, where = bindings(stage), stage.where()
    return all(where[name] and found[name] <= 1 for name in names)


@pytest.mark.parametrize("scheduler", [SHORTLIST, pytest.param(WEIGHTED, marks=pytest.mark.long)])
def test_burst_spreads(stage: Stage, scheduler: str) -> None:
    """Of five hundred pods at once no node gets more than twice the mean, though one is colder than all others."""
    where = Counter(stage.placed(*burst(stage, scheduler)))
    assert max(where.values()) <= 2 * MEAN, where


@pytest.mark.long
@pytest.mark.parametrize(("flag", "spread"), [(LATE, True), (FORGET, False)])
def test_ledger_spreads(stage: Stage, flag: str, spread: bool) -> None:  # noqa: FBT001 - a parameter
    """That holds when news of bound pods comes late; without the in-flight ledger it does not."""
    name = f"many{flag}"
    # No threshold is reached here: it would spread the pods, too.
    content = profile(plugins=[load_aware(usageThresholds={"cpu": 100}, resourceWeights={"cpu": 1})])
    extender = stage.add_extender(f"extender-{name}", content, module=TROUBLED, flags=[flag])
    stage.add_scheduler(name, configuration("shortlist", name, extender.url))
    extender.wait()
    try:
        # No two are quite the same, so that without the ledger the best eight are always the same.
        used = {node: 3 + 4 * row / NODES for row, node in enumerate(stage.nodes)}
        where = Counter(stage.placed(*burst(stage, name, used)))
    finally:
        stage.remove(name, extender)
    assert (max(where.values()) <= 2 * MEAN) is spread, where


def mortal(stage: Stage, name: str) -> tuple[Extender, Path]:
    """Start an extender that dies in the middle of the pods; with it, the processes whose ids are in the file."""
    companions = stage.cluster.dir / f"{name}-companions"
    companions.write_text("", encoding="utf-8")
    flags = [f"{DIES_WITH}{companions}"]
    return stage.add_extender(f"extender-{name}", profile(), module=TROUBLED, flags=flags), companions


@pytest.mark.long
def test_killed_extender_loses_nothing(stage: Stage) -> None:
    """The extender is killed in the middle of five hundred pods: all are bound, each once, and it comes back."""
    extender, _ = mortal(stage, MORTAL)
    found = configuration("shortlist", MORTAL, extender.url)
    assert found["extenders"][0]["ignorable"] is True
    stage.add_scheduler(MORTAL, found)
    extender.wait()
    names = burst(stage, MORTAL)
    stage.placed(*names)
    assert bound_once(stage, names)
    assert extender.process.returncode == -signal.SIGKILL
    extender.command = [word for word in extender.command if not word.startswith(DIES_WITH)]
    extender.restart()
    hot = stage.nodes[0]
    stage.settle({hot: 30}, otherwise=4)
    stage.create(stage.pod("heeded", MORTAL, affinity=among(hot)))
    stage.refused("heeded", HOT)
    stage.remove(MORTAL, extender)


def compete(stage: Stage, name: str, extender: Extender) -> Process:
    """Start a kube-scheduler that takes part in the election, beside its extender."""
    found = configuration("shortlist", PAIR, extender.url)
    assert found["leaderElection"]["leaderElect"] is True
    found["leaderElection"]["resourceNamespace"] = stage.name  # where no other test looks
    stage.add_scheduler(name, found, elect=True)
    return running(stage, name)


@pytest.mark.long
def test_other_replica_takes_over(stage: Stage) -> None:
    """The processes of the leading replica are killed under load: the other goes on, no pod is lost or bound twice."""
    allow_election(stage)
    leader, companions = mortal(stage, "pair-1")
    other = stage.add_extender("extender-pair-2", profile())
    stage.wait()
    names = burst(stage, PAIR)
    leading = compete(stage, "pair-1", leader)
    companions.write_text(f"{leading.pid}", encoding="utf-8")
    first = until(partial(holder, stage), "the first replica leading")
    compete(stage, "pair-2", other)
    stage.placed(*names)
    assert {leader.process.returncode, leading.returncode} == {-signal.SIGKILL}
    assert holder(stage) != first
    assert bound_once(stage, names)
    hot = stage.nodes[0]
    stage.settle({hot: 30}, otherwise=4)
    stage.create(stage.pod("heeded-by-other", PAIR, affinity=among(hot)))
    stage.refused("heeded-by-other", HOT)


def allow_election(stage: Stage) -> None:
    """Give kube-scheduler the right to its Lease, as the chart does in its namespace."""
    rights = "/apis/rbac.authorization.k8s.io/v1/namespaces/" + stage.name
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}
    subject = {"kind": "User", "name": "system:kube-scheduler", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "Role", "name": "leader", "apiGroup": "rbac.authorization.k8s.io"}
    named = {"metadata": {"name": "leader"}}
    stage.cluster.api.create_all([(f"{rights}/roles", {**named, "rules": [rule]})])
    stage.cluster.api.create_all([(f"{rights}/rolebindings", {**named, "subjects": [subject], "roleRef": role})])


def holder(stage: Stage) -> str:
    """Who holds the Lease that the shipped configuration names; empty while nobody does."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{stage.name}/leases/headroom-scheduler"
    if not stage.cluster.api.exists(path):
        return ""
    return str(stage.cluster.api.get(path)["spec"].get("holderIdentity") or "")
