"""Any sequence of events: patches never exceed tokens, each is needed, and each pod that fits is requeued."""

import asyncio
import atexit

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugins.requeue.settings import RequeueSettings
from tests.scheduler_plugins.requeue.site import Site
from tests.scheduler_plugins.requeue.teams import Teams, bounds

NODES, NAMESPACES = ("a", "b", "c"), ("a", "b", "c")
_LOOP = asyncio.new_event_loop()
atexit.register(_LOOP.close)

_pods = st.lists(
    st.tuples(
        st.sampled_from((500, 1000, 3000)), st.sampled_from([0, 10]), st.sets(st.sampled_from(NODES), min_size=1)
    ),
    min_size=1,
    max_size=12,
)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("free"), st.sampled_from(NODES), st.sampled_from([0, 400, 1000, 2500, 6000])),
        st.tuples(st.sampled_from(("ask", "gone")), st.integers(0, 11), st.just(0)),
        st.tuples(st.just("reconcile"), st.just(""), st.integers(1, 20)),
    ),
    max_size=25,
)


class Story:
    def __init__(self, pods: list[tuple[int, int, set[str]]]) -> None:
        self.site = Site(RequeueSettings(patches_per_second=0.5, patch_burst=3))
        self.site.set_free(**dict.fromkeys(NODES, 0))
        self.nodes = {f"p{number}": sorted(nodes) for number, (_, _, nodes) in enumerate(pods)}
        for name, (milli, priority, nodes) in zip(self.nodes, pods, strict=True):
            self.site.refuse(
                name, on=sorted(nodes), cpu=f"{milli}m", priority=priority, nodeSelector={"n": str(sorted(nodes))}
            )
        self.started = self.site.now

    def do(self, what: str, which: str | int, amount: int) -> None:
        if what == "free":
            self.site.set_free(**{str(which): amount})
        elif what == "reconcile":
            self.reconcile(amount)
        elif (name := f"p{which}") in self.nodes:
            if what == "ask":
                self.admits(name)
            else:
                self.site.unschedulable.delete_pod(f"uid-{name}")
                self.site.cache.delete_pod(f"uid-{name}")
                del self.nodes[name]

    def admits(self, name: str) -> bool:
        return self.site.admits(self.site.pods[name], *self.nodes[name])

    def reconcile(self, after: int = 1) -> list[str]:
        requeued = _LOOP.run_until_complete(self.site.reconcile(after))
        for name in requeued:
            nodes = self.site.cache.freeze(self.site.now).select(self.nodes[name])[0]
            request = self.site.cache.read(self.site.pods[name])
            assert np.any(self.site.cycle.filter(request, nodes).passes)
        assert len(self.site.api.patches) <= 3 + 0.5 * (self.site.now - self.started)
        return requeued


@settings(max_examples=settings().max_examples // 2)
@given(_pods, _steps)
def test_each_pod_that_fits_is_requeued(
    pods: list[tuple[int, int, set[str]]], steps: list[tuple[str, str | int, int]]
) -> None:
    story = Story(pods)
    for step in steps:
        story.do(*step)
    story.site.set_free(**dict.fromkeys(NODES, 1_000_000))
    for _ in range(300):
        for entry in list(story.site.unschedulable.pods.values()):
            if entry.uid in entry.group.requeued:
                assert story.admits(entry.key.partition("/")[2])  # kube-scheduler's response to a patch
        story.reconcile()
        if not story.site.unschedulable.pods:
            return
    raise AssertionError(f"these wait: {list(story.site.unschedulable.pods)}")


_name = st.sampled_from(NAMESPACES)
_submitted = st.tuples(
    st.just("submit"), st.sampled_from("ab"), st.sampled_from([0, 10]), st.sampled_from([1, 1, 2, 3])
)
Step = tuple[str, str, int, int]
_quota_steps = st.tuples(
    st.lists(_submitted, min_size=4, max_size=12),  # only the first two cores are guaranteed
    st.lists(
        st.one_of(
            st.tuples(st.just("bound"), _name, st.integers(1, 6), st.integers(2, 9)),
            st.tuples(st.just("free"), _name, st.just(0), st.integers(0, 9)),
            _submitted,
            st.tuples(st.just("quota gone"), _name, st.just(0), st.just(0)),
            st.tuples(st.just("reconcile"), st.just(""), st.just(0), st.just(0)),
        ),
        min_size=2,
        max_size=12,
    ),
)


class QuotaStory:
    def __init__(self) -> None:
        self.teams = Teams(a=(1, 3), b=(1, 3))  # c has none
        self.running: dict[str, list[str]] = {name: [] for name in NAMESPACES}
        self.waiting: dict[str, str] = {}

    def do(self, what: str, namespace: str, other: int, amount: int) -> None:
        if what == "bound":
            self.teams.cluster.put_quota(bounds(namespace, other, amount))
        elif what == "quota gone":
            self.teams.cluster.delete_quota(f"quota-{namespace}")
        elif what == "free" and self.running[namespace]:
            self.teams.cluster.delete_pod(f"uid-{self.running[namespace].pop(amount % len(self.running[namespace]))}")
        elif what == "submit":
            name = f"p{len(self.teams.pods)}"
            if self.teams.admits(self.teams.of(name, namespace, str(amount), priority=other)):
                self._bind(name, namespace)
            else:
                self.waiting[name] = namespace
        elif what == "reconcile":
            self.reconcile()

    def reconcile(self) -> None:
        requeued = _LOOP.run_until_complete(self.teams.reconcile())
        for name, admitted in zip(requeued, self.teams.retry(*requeued), strict=True):
            if admitted:
                self._bind(name, self.waiting.pop(name))

    def _bind(self, name: str, namespace: str) -> None:
        item = {**self.teams.pods[name], "spec": {**self.teams.pods[name]["spec"], "nodeName": "n1"}}
        self.teams.cluster.put_pod(item)
        self.teams.cache.release(f"uid-{name}")
        self.teams.unschedulable.put_pod(item)
        self.running[namespace].append(name)

    def admitted(self) -> list[str]:
        nodes = self.teams.cache.freeze(self.teams.now)
        requests = {name: self.teams.cache.read(self.teams.pods[name]) for name in self.waiting}
        return [name for name, pod in requests.items() if np.any(self.teams.cycle.filter(pod, nodes).passes)]


@given(_quota_steps)
def test_no_pod_waits_that_would_be_admitted(steps: tuple[list[Step], list[Step]]) -> None:
    story = QuotaStory()
    for step in (*steps[0], *steps[1]):
        story.do(*step)
    for _ in range(200):  # backoff is at most a minute
        if not story.admitted():
            return
        story.reconcile()
    raise AssertionError(f"these wait: {story.admitted()}")
