"""Whatever happens to quotas and pods: nobody is woken in vain, and nobody who would be admitted is left waiting."""

import asyncio
import atexit

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler_plugins.requeue.teams import Teams, bounds

NAMESPACES = ("a", "b", "c")
_name = st.sampled_from(NAMESPACES)
_submitted = st.tuples(
    st.just("submit"), st.sampled_from("ab"), st.sampled_from([0, 10]), st.sampled_from([1, 1, 2, 3])
)
_steps = st.tuples(
    st.lists(_submitted, min_size=4, max_size=12),  # the first two cores are all that is guaranteed
    st.lists(
        st.one_of(
            st.tuples(st.just("bound"), _name, st.integers(1, 6), st.integers(2, 9)),
            st.tuples(st.just("free"), _name, st.just(0), st.integers(0, 9)),
            _submitted,
            st.tuples(st.just("quota gone"), _name, st.just(0), st.just(0)),
            st.tuples(st.just("look"), st.just(""), st.just(0), st.just(0)),
        ),
        min_size=2,
        max_size=12,
    ),
)
Step = tuple[str, str, int, int]
_LOOP = asyncio.new_event_loop()
atexit.register(_LOOP.close)


class Story:
    """Pods of three namespaces, and what happens to them."""

    def __init__(self) -> None:
        self.teams = Teams(a=(1, 3), b=(1, 3))  # c has none
        self.running: dict[str, list[str]] = {name: [] for name in NAMESPACES}
        self.unschedulable: dict[str, str] = {}

    def do(self, what: str, namespace: str, other: int, amount: int) -> None:
        """One step."""
        if what == "bound":
            self.teams.cluster.put_quota(bounds(namespace, other, amount))
        elif what == "quota gone":
            self.teams.cluster.delete_quota(f"quota-{namespace}")
        elif what == "free" and self.running[namespace]:
            self.teams.cluster.delete_pod(f"uid-{self.running[namespace].pop(amount % len(self.running[namespace]))}")
        elif what == "submit":
            name = f"p{len(self.teams.pods)}"
            if self.teams.ask(self.teams.of(name, namespace, str(amount), priority=other)):
                self._bind(name, namespace)
            else:
                self.unschedulable[name] = namespace
        elif what == "look":
            self.reconcile()

    def reconcile(self) -> int:
        """Have the waker look; whoever is woken is asked about again, and must be admitted."""
        requeued = _LOOP.run_until_complete(self.teams.reconcile())
        assert self.teams.ask_again(*requeued) == [True] * len(requeued)
        for name in requeued:
            self._bind(name, self.unschedulable.pop(name))
        return len(requeued)

    def _bind(self, name: str, namespace: str) -> None:
        item = {**self.teams.pods[name], "spec": {**self.teams.pods[name]["spec"], "nodeName": "n1"}}
        self.teams.cluster.put_pod(item)
        self.teams.cache.release(f"uid-{name}")
        self.teams.unschedulable.put_pod(item)
        self.running[namespace].append(name)

    def admitted(self) -> list[str]:
        """The waiting pods that would be admitted now."""
        nodes = self.teams.cache.freeze(self.teams.now)
        requests = {name: self.teams.cache.read(self.teams.pods[name]) for name in self.unschedulable}
        return [name for name, pod in requests.items() if np.any(self.teams.cycle.filter(pod, nodes).passes)]


@given(_steps)
def test_who_is_admitted_is_woken(steps: tuple[list[Step], list[Step]]) -> None:
    """Each woken pod is admitted when it is asked about again, and in the end nobody waits who would be."""
    story = Story()
    for step in (*steps[0], *steps[1]):
        story.do(*step)
    while story.reconcile():
        pass
    assert story.admitted() == []
