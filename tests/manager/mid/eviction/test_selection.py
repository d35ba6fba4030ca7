"""Who goes: the order, and as few as it allows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import names
from manager.inputs import PodInputs, Resource
from manager.mid.eviction.selection import Selection, eviction_order, relieves, select_victims, subtract
from tests.manager.mid.eviction.made_mid import facts_of, mid, short, total
from tests.support.objects import pod


def nobody(_: PodInputs) -> str:
    """Spares nobody."""
    return ""


def named(selection: Selection) -> list[str]:
    """Names of the victims."""
    return [victim.key.removeprefix("shop/") for victim in selection.victims]


def test_lowest_priority_then_youngest() -> None:
    """A lower priority goes before a higher one however old, and of two alike the younger one."""
    pods = facts_of(
        mid("old-high", priority=7500, age=9000),
        mid("young-high", priority=7500, age=10),
        mid("old-low", priority=7000, age=9000),
        mid("young-low", priority=7000, age=10),
    )
    order = [each.key for each in eviction_order(pods)]
    assert order == ["shop/young-low", "shop/old-low", "shop/young-high", "shop/old-high"]


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        (1, 0, ["a"]),
        (2000, 0, ["a"]),
        (2001, 0, ["a", "c"]),  # b holds no CPU
        (0, 1, ["b"]),  # a holds no memory
        (2000, 1024, ["a", "b"]),
        (2001, 1024, ["a", "b", "c"]),
        (99_000, 0, ["a", "c"]),  # all that there is does not end it
        (0, 0, []),
    ],
)
def test_as_few_as_order_allows(cpu: int, memory: int, expected: list[str]) -> None:
    """Pods go from the front until nothing is short; one that holds nothing of it is passed over."""
    pods = facts_of(mid("a", 2000, age=1), mid("b", 0, 1024, age=2), mid("c", 2000, 64, age=3))
    assert named(select_victims(pods, short(cpu, memory), nobody)) == expected


def test_second_resource_passes_over() -> None:
    """Once CPU is no longer short, a pod that holds CPU alone stays, and the next one with memory goes."""
    pods = facts_of(mid("a", 2000, age=1), mid("b", 2000, age=2), mid("c", 0, 64, age=3))
    assert named(select_victims(pods, short(1000, 64), nobody)) == ["a", "c"]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({"owner": ("DaemonSet", "d")}, "DaemonSet"),
        ({"owner": ("Node", "n1"), "annotations": {names.ANNOTATION_CONFIG_MIRROR: "x"}}, "static pod"),
        ({"priority": 9000}, "above Mid"),
        ({"priority": 8000}, "above Mid"),
        ({"label": "koord-prod"}, "above Mid"),
        ({"priority": 2_000_000_000, "label": "koord-mid"}, "above Mid"),
    ],
)
def test_some_are_never_evicted(what: dict[str, Any], words: str) -> None:
    """Who comes back to the same node, and who is above Mid by label or number, stays; the next one goes instead."""
    pods = facts_of(mid("kept", **{"priority": 1, **what}), mid("next", priority=7999))
    selection = select_victims(pods, short(1000), nobody)
    if what.get("priority", 0) <= 7999:
        assert [(each.key, words in why) for each, why in selection.spared] == [("shop/kept", True)]
    assert named(selection) == ["next"]
    (_, why) = select_victims(pods[:1], short(1000), nobody).spared[0]
    assert words in why


def test_own_number_with_mid_label_may_go() -> None:
    """The label says what a pod is: with priority numbers of one's own, a pod labelled Mid can still go."""
    assert named(select_victims(facts_of(mid("m", priority=100_000, label="koord-mid")), short(1), nobody)) == ["m"]


def test_other_pods_never_count() -> None:
    """Pods that requested no Mid resources, have ended, or are on their way out are not asked."""
    ended = mid("ended")
    ended["status"]["phase"] = "Succeeded"
    pods = facts_of(pod("prod", {"cpu": "4"}), pod("label-only", priority=7000), ended, mid("out", terminating=True))
    assert select_victims(pods, short(1000), nobody) == Selection(short=short(1000))


_PODS = st.lists(
    st.builds(
        lambda number, cpu, memory, priority, age, kind: mid(
            f"p{number}", cpu, memory, priority=priority, age=age, owner=(kind, "w"), terminating=kind == "Out"
        ),
        st.integers(0, 10**6),
        st.sampled_from([0, 1, 500, 2000]),
        st.sampled_from([0, 1, 512]),
        st.integers(6990, 8010),
        st.floats(0, 10**6),
        st.sampled_from(["Job", "Job", "DaemonSet", "Out"]),
    ),
    max_size=12,
    unique_by=lambda made: made["metadata"]["name"],
)
_SHORT = st.builds(short, st.integers(0, 6000), st.integers(0, 1500))


@given(made=_PODS, what=_SHORT, spared=st.sets(st.integers(0, 11)))
def test_victims_are_minimal_prefix(made: list[dict[str, Any]], what: Any, spared: set[int]) -> None:  # noqa: ANN401
    """For any pods and shortage: in order, each victim needed when its turn came, nobody skipped without a reason."""
    pods = facts_of(*made)
    order = eviction_order(pods)
    left_alone = {order[index].uid for index in spared if index < len(order)}
    selection = select_victims(pods, what, lambda each: "left alone" if each.uid in left_alone else "")
    victims = list(selection.victims)
    places = [order.index(victim) for victim in victims]
    assert places == sorted(places)
    still, reasons = what, {each.uid: why for each, why in selection.spared}
    for candidate in order:
        needed = relieves(candidate, still) and not candidate.mid.terminating  # type: ignore[union-attr]
        assert (candidate in victims) == (needed and candidate.uid not in reasons)
        if candidate in victims:
            still = subtract(still, candidate.mid_requests)
    assert still == selection.short
    assert all(selection.short[each] == max(what[each] - total(victims, each), 0) for each in Resource)
    for victim in victims:
        assert victim.mid is not None
        assert victim.mid.kept == ""
        assert victim.mid.priority <= 7999
        assert not victim.above_mid
        assert victim.uid not in left_alone
