"""Two replicas of extender and kube-scheduler under faults, and every write about quotas checked as one history.

Each replica is a kube-scheduler with a host name of its own and the extender beside it. One namespace borrows what
another wants back again and again, and `max` is edited meanwhile. All the while a replica's extender or kube-scheduler
is killed or paused. In the first half of the time pods wait for an extender that is away (`ignorable: false`), so that
no binding may ever pass a `max`; in the second half they are placed without it, as is shipped, and only pods bound
while it was away may.
"""

import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.audited import audited
from tests.scheduler_plugins.extenders import Extender, configuration, profile
from tests.scheduler_plugins.quota_teams import CAPACITY_SCHEDULING, GPU, QUOTAS
from tools.devcluster import Cluster
from tools.devcluster.component import Component
from tools.devcluster.controlplane import RECORDED_GROUP
from tools.soak.progress import ROOT, Progress, run
from tools.soak.quota_history import Away, Bound, LeaseTaken, faults
from tools.soak.quota_record import Record, evictions, history

SCHEDULER, NAMESPACE, NAME = "quotas", "kube-system", "kube-scheduler"
"""The name that pods give, and the Lease: the one that every kube-scheduler may hold."""
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases?fieldSelector=metadata.name={NAME}"
REPLICAS: Final = ("one", "two")
NODES, GPUS = 2, 4
TEAMS: Final = {"borrower": (2, (3, 8)), "lender": (6, (6, 8))}
"""The min of each, and between which amounts its max is edited. [GPUs]"""
MOST_PENDING: Final = 4
LEASE: Final = {"leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "1s"}
LEASE_SECONDS: Final = 6.0
ANSWER_SECONDS: Final = 4.0
"""The timeout of kube-scheduler's requests: a busy machine must not look like an extender that is away. [s]"""
TURN_SECONDS: Final = 12.0  # how long the lender wants its share, and how long it does not
TICK_SECONDS: Final = 0.2
CALM_SECONDS: Final = (1.0, 9.0)
PROBLEM_SECONDS: Final = (0.2, 12.0)
UNHEARD_SECONDS: Final = LEASE_SECONDS + PROBLEM_SECONDS[1]
FLIGHT_SECONDS: Final = 3 * PROBLEM_SECONDS[1]
"""How old the state behind an admission may be at the binding: the replica may be paused meanwhile."""
STRICT_SHARE, ALL_SHARE = 0.5, 0.9  # until which parts of the time pods wait for the extender, and anything is tried
FEWEST: Final = {"bindings": 20, "evictions": 2, "holders of the Lease": 2, "problems": 4}  # of a run
MOST_TOLD = 8
RECLAIM: Final = {"schedulerNames": [SCHEDULER], "holdSeconds": 20, "backOffSeconds": 1, "longestBackOffSeconds": 5}
PLUGIN: Final = {**CAPACITY_SCHEDULING, "args": {"maxMissing": "infinite", "reclaim": RECLAIM}}
KINDS: Final = ("kill extender", "pause extender", "kill scheduler", "pause scheduler")

Json = dict[str, Any]


@dataclass(slots=True)
class Replica:
    """A kube-scheduler and its extender."""

    name: str  # host name, and user of the audit log
    extender: Extender  # the extender
    scheduler: Component  # the kube-scheduler, which ends when it loses the Lease
    since: float | None = None  # since when the extender is away; None: it answers [unix s]

    def configured(self, *, ignorable: bool) -> Json:
        """The kube-scheduler's configuration."""
        result = configuration("shortlist", SCHEDULER, self.extender.url)
        result["extenders"][0] |= {"httpTimeout": f"{ANSWER_SECONDS:.0f}s", "ignorable": ignorable}
        election = {"leaderElection": {"leaderElect": True, **LEASE}}
        return {**result, **election, "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 2}


@dataclass(slots=True)
class Site:
    """The running programs, and their faults."""

    cluster: Cluster  # the cluster
    record: Record  # of its writes
    chance: random.Random  # draws all that is done
    replicas: list[Replica] = field(default_factory=list)  # both
    away: list[Away] = field(default_factory=list)  # when extenders were away while pods were placed without them
    done: Counter[str] = field(default_factory=Counter)  # the number of faults of each kind
    ignorable: bool = False  # whether pods are placed without an extender that is away
    made: int = 0  # Pods so far

    @classmethod
    @contextmanager
    def open(cls, seed: int) -> Iterator["Site"]:
        """Start a cluster with all of it; everything ends with the block.

        Raises:
            DevClusterError: something did not start; with the end of its log.
        """
        with Cluster(say=lambda _: None, kwok_nodes=NODES) as cluster:
            for kind in ("node_metric", "elastic_quota"):
                cluster.define(ROOT / "crds" / f"{kind}.yaml")
            for namespace in TEAMS:
                cluster.create_namespace(namespace)
            for node in cluster.kwok.names:
                amounts = {part: {GPU: f"{GPUS}"} for part in ("capacity", "allocatable")}
                cluster.api.merge(f"/api/v1/nodes/{node}/status", {"status": amounts})
            record = Record(cluster, LEASES)
            record.start()
            site = cls(cluster, record, random.Random(seed))  # noqa: S311 - no secret
            for team, (_, (_, most)) in TEAMS.items():
                site.promise(team, most)
            try:
                site.replicas = [site.start(name) for name in REPLICAS]
                for replica in site.replicas:
                    replica.extender.wait()
                yield site
            finally:
                record.close()

    def start(self, name: str) -> Replica:
        """Start a replica."""
        plane = self.cluster.control_plane
        login = plane.pki.client(name, name, ("system:masters", RECORDED_GROUP))
        kubeconfig = plane.pki.kubeconfig(name, login, plane.url)
        flags = [f"--kubeconfig={kubeconfig}", f"--leader-lease={NAMESPACE}/{NAME}", f"--leader-identity={name}"]
        extender = Extender.start(self.cluster, f"extender-{name}", profile(plugins=[PLUGIN]), flags)
        replica = Replica(name, extender, plane.scheduler)
        self.schedule(replica)
        return replica

    def schedule(self, replica: Replica) -> None:
        """Start a replica's kube-scheduler."""
        result = replica.configured(ignorable=self.ignorable)
        name = f"scheduler-{replica.name}"
        replica.scheduler = self.cluster.control_plane.add_scheduler(name, result, elect=True, host=replica.name)

    def place_without_extenders(self) -> None:
        """From now on pods are placed without an extender that is away."""
        for replica in self.replicas:
            replica.scheduler.kill()
        self.ignorable = True
        for replica in self.replicas:
            self.schedule(replica)

    # Faults of the replicas

    def problem(self) -> Iterator[None]:
        """Cause faults one at a time, with pauses between; call it at intervals."""
        while True:
            for kind in self.chance.sample(KINDS, len(KINDS)):
                yield from self.wait(*CALM_SECONDS)
                chosen = self.chance.choice(self.replicas)
                if kind.endswith("scheduler"):  # the other one only waits for the Lease
                    chosen = next((replica for replica in self.replicas if replica.name == self.record.holder), chosen)
                yield from self.make(kind, chosen)

    def make(self, kind: str, replica: Replica) -> Iterator[None]:
        """Cause a fault of a kind, until it is over."""
        self.done[kind] += 1
        process = replica.extender.process if kind.endswith("extender") else replica.scheduler.process
        if kind.endswith("extender"):
            replica.since = time.time()
        if process is not None:
            process.signal(signal.SIGKILL if kind.startswith("kill") else signal.SIGSTOP)
        yield from self.wait(*PROBLEM_SECONDS)
        if kind == "kill extender":
            replica.extender.restart()
        elif process is not None and kind.startswith("pause"):
            process.signal(signal.SIGCONT)
        self.back(replica)

    def back(self, replica: Replica) -> None:
        """Note until when an extender was away, if it was."""
        if replica.since is not None and self.ignorable:
            self.away.append(Away(replica.since, time.time(), replica.name))
        replica.since = None

    def wait(self, least: float, most: float) -> Iterator[None]:
        """A time between these. [s]"""
        end = time.monotonic() + self.chance.uniform(least, most)
        while time.monotonic() < end:
            yield

    def revive(self) -> None:
        """Start a kube-scheduler again that has ended, as its kubelet would."""
        for replica in self.replicas:
            if not replica.scheduler.running:
                self.schedule(replica)

    # Actions of the namespaces

    def live(self, elapsed: float) -> None:
        """Something of what goes on in the namespaces, after a time. [s]"""
        wants = int(elapsed / TURN_SECONDS) % 2
        if self.chance.random() < 0.05:  # noqa: PLR2004 - about every four seconds
            team = self.chance.choice(sorted(TEAMS))
            self.promise(team, self.chance.randint(*TEAMS[team][1]))
        if wants:
            self.create("lender")
        else:
            for name in sorted(name for name in self.record.pods.copy() if name.startswith("lender/")):
                self.delete(name)
        self.create("borrower")

    def promise(self, team: str, most: int) -> None:
        """Give a team a quota, or edit its max."""
        path = f"{QUOTAS}/namespaces/{team}/elasticquotas"
        spec = {"min": {GPU: f"{TEAMS[team][0]}"}, "max": {GPU: f"{most}"}}
        if self.cluster.api.exists(f"{path}/{team}"):
            self.cluster.api.merge(f"{path}/{team}", {"spec": spec})
        else:
            kind = {"apiVersion": QUOTAS.removeprefix("/apis/"), "kind": "ElasticQuota", "metadata": {"name": team}}
            self.cluster.api.request("POST", path, {**kind, "spec": spec})

    def create(self, team: str) -> None:
        """A pod of a team, unless several of its pods wait already."""
        there = [pod for pod in self.record.pods.copy().values() if pod["metadata"]["namespace"] == team]
        if sum(not pod["spec"].get("nodeName") for pod in there) >= MOST_PENDING:
            return
        self.made += 1
        amount = {GPU: f"{self.chance.randint(1, 2)}"}
        container = {"name": "main", "image": "none", "resources": {"requests": amount, "limits": amount}}
        spec = {"containers": [container], "schedulerName": SCHEDULER, "terminationGracePeriodSeconds": 2}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{team}-{self.made}"}, "spec": spec}
        self.cluster.api.request("POST", f"/api/v1/namespaces/{team}/pods", body)

    def delete(self, name: str) -> None:
        """A pod, by namespace and name; it may be gone already."""
        namespace, _, pod = name.partition("/")
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}"
        if self.cluster.api.exists(path):
            self.cluster.api.request("DELETE", path)


def trial(progress: Progress) -> None:
    """Let namespaces compete under faults, and check the writes."""
    progress.log(f"starting the cluster; seed {progress.seed}")
    with Site.open(progress.seed) as site:
        _live(progress, site)
        for replica in site.replicas:
            site.back(replica)
        events = list(history(list(site.record.seen)))
        evicted, wrong = evictions(audited(site.cluster, f'"{RECORDED_GROUP}"'), events, REPLICAS)
        wrong += site.record.broken
        past = faults(events, FLIGHT_SECONDS, UNHEARD_SECONDS, site.away)
        without = len(faults(events, FLIGHT_SECONDS, UNHEARD_SECONDS)) - len(past)
        wrong += past
        if wrong:
            site.cluster.keep_logs()
            print(*events, *site.away, sep="\n", file=sys.stderr)  # into the step's log
    progress.log(f"{without} bound past a max while the extender was away and pods were placed without it")
    kinds = Counter(type(event) for event in events)
    counts = {"bindings": kinds[Bound], "evictions": evicted, "holders of the Lease": kinds[LeaseTaken]}
    counts["problems"] = site.done.total()
    result = ", ".join(f"{what} {count}" for what, count in counts.items())
    named = "; ".join(wrong[:MOST_TOLD]) + (f"; and {len(wrong) - MOST_TOLD} more" if len(wrong) > MOST_TOLD else "")
    claim = "no binding passes a max, no pod is evicted twice, only the leader evicts"
    progress.check(claim, named or result, passed=not wrong)
    enough = all(counts[what] >= least for what, least in FEWEST.items())
    progress.check("enough of it was tried, and the Lease changed hands", result, passed=enough)


def _live(progress: Progress, site: Site) -> None:
    began, problems, texts = time.monotonic(), site.problem(), 0
    for share, what in ((STRICT_SHARE, "wait for the extender"), (ALL_SHARE, "are placed without an extender")):
        if share > STRICT_SHARE:
            for _ in problems:
                if all(replica.since is None for replica in site.replicas):
                    break
                time.sleep(TICK_SECONDS)
            site.place_without_extenders()
        progress.log(f"pods {what} that is away")
        while progress.left(share) > 0:
            next(problems)
            site.revive()
            site.live(time.monotonic() - began)
            if site.done.total() > texts:
                texts = site.done.total()
                progress.log(f"{texts} problems: {dict(site.done)}")
            time.sleep(TICK_SECONDS)


if __name__ == "__main__":
    run(trial)
