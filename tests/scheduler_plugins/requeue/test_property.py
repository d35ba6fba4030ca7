"""Whatever happens: no more patches than tokens, nobody woken in vain, everybody who fits woken in the end."""

import asyncio
import atexit

from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler_plugins.requeue.settings import RequeueSettings
from tests.scheduler_plugins.requeue.site import Site

NODES = ("a", "b", "c")
SIZES = (500, 1000, 3000)

_pods = st.lists(
    st.tuples(st.sampled_from(SIZES), st.sampled_from([0, 10]), st.sets(st.sampled_from(NODES), min_size=1)),
    min_size=1,
    max_size=12,
)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("room"), st.sampled_from(NODES), st.sampled_from([0, 400, 1000, 2500, 6000])),
        st.tuples(st.just("ask"), st.integers(0, 11), st.just(0)),
        st.tuples(st.just("gone"), st.integers(0, 11), st.just(0)),
        st.tuples(st.just("look"), st.integers(1, 20), st.just(0)),
    ),
    max_size=25,
)


_LOOP = asyncio.new_event_loop()
atexit.register(_LOOP.close)


class Story:
    """Pods that were refused everywhere, and what happens to them."""

    def __init__(self, pods: list[tuple[int, int, set[str]]]) -> None:
        self.site = Site(RequeueSettings(patches_per_second=0.5, patch_burst=3))
        self.site.room(**dict.fromkeys(NODES, 0))
        self.fits: dict[str, tuple[int, set[str]]] = {}
        for number, (milli, priority, nodes) in enumerate(pods):
            name = f"p{number}"
            self.fits[name] = (milli, nodes)
            self.site.refuse(name, on=sorted(nodes), cpu=f"{milli}m", priority=priority, nodeSelector={"n": str(nodes)})
        self.rooms = dict.fromkeys(NODES, 0)
        self.started = self.site.now

    def do(self, what: str, which: object, amount: int) -> None:
        """One step."""
        if what == "room":
            self.rooms[str(which)] = amount
            self.site.room(**{str(which): amount})
        elif what == "look":
            assert isinstance(which, int)
            self.reconcile(which)
        elif (name := f"p{which}") in self.fits:
            if what == "ask":
                self.ask(name)
            else:
                self.site.unschedulable.delete_pod(f"uid-{name}")
                self.site.cache.delete_pod(f"uid-{name}")
                del self.fits[name]

    def ask(self, name: str) -> bool:
        """As kube-scheduler would."""
        return self.site.ask(self.site.pods[name], *sorted(self.fits[name][1]))

    def reconcile(self, after: int = 1) -> list[str]:
        """Look; those that are woken would pass, all of them together."""
        requeued = _LOOP.run_until_complete(self.site.reconcile(after))
        taken = dict.fromkeys(NODES, 0)
        for name in requeued:
            milli, nodes = self.fits[name]
            target = self.site.unschedulable.entries[f"uid-{name}"].target
            assert target in nodes
            taken[target] += milli
            assert taken[target] <= self.rooms[target]
        elapsed = self.site.now - self.started
        assert len(self.site.api.patches) <= 3 + 0.5 * elapsed
        return requeued


@settings(max_examples=settings().max_examples // 2)
@given(_pods, _steps)
def test_wakes_only_whom_it_helps(pods: list[tuple[int, int, set[str]]], steps: list[tuple[str, object, int]]) -> None:
    """At every step patches stay within the tokens, and woken pods have room together on the nodes that fit them."""
    story = Story(pods)
    for step in steps:
        story.do(*step)


@settings(max_examples=settings().max_examples // 2)
@given(_pods, _steps)
@example(pods=[(500, 0, {"a"})], steps=[("room", "a", 1000), ("ask", 0, 0)])  # asked about again, not woken: it fits
def test_everybody_is_woken_in_the_end(
    pods: list[tuple[int, int, set[str]]], steps: list[tuple[str, object, int]]
) -> None:
    """When room is made for all and kept, every pod that is still refused is woken, answered and bound."""
    story = Story(pods)
    for step in steps:
        story.do(*step)
    story.site.room(**dict.fromkeys(NODES, 1_000_000))
    story.rooms = dict.fromkeys(NODES, 1_000_000)
    # Pods in flight have found a node when they were asked about again: the next look lets go of them and wakes none.
    refused = story.site.unschedulable.entries.keys() - story.site.cache.in_flight.keys()
    unschedulable = {story.site.unschedulable.entries[uid].key.partition("/")[2] for uid in refused}
    for name in [
        name for name in unschedulable if story.site.unschedulable.entries[f"uid-{name}"].woken_at is not None
    ]:
        story.ask(name)  # kube-scheduler's answer to an earlier patch
        unschedulable.remove(name)
    unschedulable &= story.fits.keys()
    for _ in range(200):
        if not unschedulable:
            break
        for name in story.reconcile():
            unschedulable.discard(name)
            assert story.ask(name)
    assert not unschedulable
