"""Reclaim on the real kube-scheduler when processes are killed, or the leader changes, in the middle of it."""

import json
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from crds.names import ANNOTATION_RECLAIM_HOLD
from tests.audited import audited
from tests.scheduler_plugins.extenders import Extender, Json, configuration, profile, until
from tests.scheduler_plugins.faulty import DIES_EVICTED, DIES_HELD
from tests.scheduler_plugins.quota_teams import CAPACITY_SCHEDULING, GPU, Observed, Team, give_gpus, teams
from tests.scheduler_plugins.stage import Stage
from tools.devcluster import Cluster
from tools.devcluster.process import Process

pytestmark = [pytest.mark.cluster, pytest.mark.long]

NODES, GPUS = 4, 4
HALF = NODES * GPUS // 2
WANTED = 2  # GPUs of the preemptor: the number of victims
SCHEDULER = "faults"
PLUGIN = {**CAPACITY_SCHEDULING, "args": {"maxMissing": "infinite", "reclaim": {"schedulerNames": [SCHEDULER]}}}
FAULTY = "tests.scheduler_plugins.faulty"
LINGER = "headroom.dev/test"  # finalizer of pods that stay terminating until the test removes it
HELD, EVICTED, TERMINATING, GONE = "held", "evicted", "terminating", "gone"
DIES = {HELD: [DIES_HELD], EVICTED: [DIES_EVICTED]}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
LEASE_SECONDS, RENEW_SECONDS = 3, 0.5


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    with Stage.open(cluster, "faults", NODES) as stage:
        give_gpus(stage, GPUS)
        yield stage


@pytest.fixture(scope="module")
def quotas(stage: Stage) -> Iterator[list[Team]]:
    with teams(stage, {"faults-lender": (HALF, HALF), "faults-borrower": (HALF, 2 * HALF)}) as made:
        yield list(made.values())


@dataclass
class Scene:
    stage: Stage
    name: str  # prefix of all pod names
    lender: Team
    borrower: Team
    extender: Extender
    seen: Observed

    @property
    def claimant(self) -> str:
        return f"{self.name}-claimant"

    @property
    def rival(self) -> str:
        return f"{self.name}-rival"

    @property
    def process(self) -> Process:
        process = self.stage.schedulers[SCHEDULER].process
        assert process is not None
        return process

    def nomination(self) -> None:
        amounts = {GPU: "1"}
        self.stage.create(self.stage.pod(self.rival, SCHEDULER, requests={"cpu": "1m", **amounts}, limits=amounts))
        self.stage.refused(self.rival, f"Insufficient {GPU}")
        self.lender.create(self.lender.pod(self.claimant, SCHEDULER, WANTED))

    def reach(self, moment: str) -> Json:
        if moment in DIES:
            until(lambda: not self.extender.process.running, f"the extender dying when {moment}")
            assert len(self.terminating()) == (moment == EVICTED)
        else:
            until(lambda: len(self.terminating()) == WANTED, "all victims terminating")
        if moment == GONE:
            self.process.signal(signal.SIGSTOP)
            self.remove_finalizers()
            until(lambda: not self.terminating() and len(self.seen.gone) == WANTED, "all victims being deleted")
        assert self.claimant not in self.lender.bound()
        annotations = self.lender.read()[self.claimant]["metadata"]["annotations"]
        hold: Json = json.loads(annotations[ANNOTATION_RECLAIM_HOLD])
        return hold

    def terminating(self) -> list[str]:
        return [name for name, pod in self.borrower.read().items() if pod["metadata"].get("deletionTimestamp")]

    def remove_finalizers(self) -> None:
        for team in (self.borrower, self.lender):
            for name, pod in team.read().items():
                if pod["metadata"].get("finalizers"):
                    self.stage.cluster.api.merge(f"{team.path}/{name}", {"metadata": {"finalizers": None}})

    def finish(self, extender: Extender, hold: Json) -> None:
        """Wait until the claimant is bound. Only the victims end, once, and no other pod gets their resources."""
        if hold["victims"] and not set(hold["victims"]) <= self.seen.gone:
            until(lambda: len(self.terminating()) == WANTED, "all victims terminating")
            extender.wait_for_rounds()
            self.remove_finalizers()
        until(lambda: self.claimant in self.lender.bound(), "the claimant being bound")
        extender.wait_for_rounds()
        assert self.lender.bound()[self.claimant] == hold["node"]
        assert len(hold["victims"]) == WANTED
        until(lambda: set(self.seen.deleted) == set(hold["victims"]), lambda: f"{hold} alone: {self.seen.deleted}")
        assert not self.stage.where()[self.rival]
        names = sorted(pod["metadata"]["name"] for pod in self.seen.deleted.values())
        until(lambda: sorted(self.evictions()) == names, lambda: f"{names} evicted once: {self.evictions()}")
        assert not self.seen.broken

    def evictions(self) -> list[str]:
        evictions = audited(self.stage.cluster, '"subresource":"eviction"', f'"name":"{self.name}-')
        return [entry["objectRef"]["name"] for entry in evictions if entry["responseStatus"]["code"] == 201]


@contextmanager
def scene(stage: Stage, quotas: list[Team], name: str, flags: Sequence[str]) -> Iterator[Scene]:
    lender, borrower = quotas
    filling = [borrower.pod(f"{name}-{index}", SCHEDULER, node=stage.nodes[index % NODES]) for index in range(2 * HALF)]
    for pod in filling:
        pod["metadata"]["finalizers"] = [LINGER]
    borrower.create(*filling)
    until(lambda: all("startTime" in pod["status"] for pod in borrower.read().values()), "the borrower's pods running")
    extender = stage.add_extender(f"extender-{name}", profile(plugins=[PLUGIN]), module=FAULTY, flags=flags)
    extender.wait()
    with Observed.watching(stage, lender, borrower) as observed:
        result = Scene(stage, name, lender, borrower, extender, observed)
        serve(stage, extender)
        try:
            yield result
        finally:
            stage.schedulers.pop(SCHEDULER).stop()
            extender.process.stop()
            stage.extenders.remove(extender)
            result.remove_finalizers()
            for team in quotas:
                team.clear()
            stage.clear()


def serve(stage: Stage, extender: Extender) -> None:
    if SCHEDULER in stage.schedulers:
        stage.schedulers.pop(SCHEDULER).stop()
    scheduler_configuration = configuration("shortlist", SCHEDULER, extender.url)
    scheduler_configuration["extenders"][0]["ignorable"] = False
    stage.add_scheduler(SCHEDULER, scheduler_configuration)


@pytest.mark.parametrize("moment", [HELD, EVICTED, TERMINATING, GONE])
def test_killed_extender_continues(stage: Stage, quotas: list[Team], moment: str) -> None:
    """Killed between a hold and the binding, the extender continues: no pod is evicted twice, no resources are lost."""
    with scene(stage, quotas, f"killed-{moment}", DIES.get(moment, [])) as inputs:
        inputs.nomination()
        hold = inputs.reach(moment)
        if moment not in DIES:
            inputs.extender.kill()
        inputs.extender.command = [word for word in inputs.extender.command if word not in (DIES_HELD, DIES_EVICTED)]
        inputs.extender.restart()
        inputs.process.signal(signal.SIGCONT)
        inputs.finish(inputs.extender, hold)


@contextmanager
def lease(stage: Stage) -> Iterator[dict[str, str]]:
    leading, ended, path = {"holder": "one_x"}, threading.Event(), LEASES.format(stage.name)
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": SCHEDULER}}
    stage.cluster.api.create_all([(path, {**kind, "spec": {"leaseDurationSeconds": LEASE_SECONDS}})])

    def renew() -> None:
        former, since, changes = "", "", -1
        while not ended.wait(RENEW_SECONDS):
            holder, now = leading["holder"], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            if holder != former:
                former, since, changes = holder, now, changes + 1
            spec = {"holderIdentity": holder, "acquireTime": since, "renewTime": now, "leaseTransitions": changes}
            stage.cluster.api.merge(f"{path}/{SCHEDULER}", {"spec": spec})

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield leading
    finally:
        ended.set()
        thread.join()
        stage.cluster.api.request("DELETE", f"{path}/{SCHEDULER}")


@pytest.mark.parametrize("moment", [EVICTED, GONE])
def test_next_leader_continues(stage: Stage, quotas: list[Team], moment: str) -> None:
    """The leader dies or loses the Lease between a hold and the binding: the next one evicts no other pod."""
    named = f"--leader-lease={stage.name}/{SCHEDULER}"
    flags = [named, "--leader-identity=one", *DIES.get(moment, [])]
    with lease(stage) as leading, scene(stage, quotas, f"next-{moment}", flags) as inputs:
        other = stage.add_extender(
            f"extender-other-{moment}", profile(plugins=[PLUGIN]), flags=[named, "--leader-identity=two"]
        )
        other.wait()
        inputs.nomination()
        hold = inputs.reach(moment)
        leading["holder"] = "two_x"
        inputs.process.signal(signal.SIGCONT)
        serve(stage, other)
        inputs.finish(other, hold)
        other.process.stop()
        stage.extenders.remove(other)
