from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import names
from manager.inputs import Resource
from manager.mid.eviction.selection import Selection, eviction_order, relieves, select_victims, subtract
from tests.manager.mid.eviction.evicting_node import inputs_of, mid, short
from tests.support.objects import Json, pod


def named(selection: Selection) -> list[str]:
    return [victim.key.removeprefix("shop/") for victim in selection.victims]


def test_lowest_priority_then_youngest() -> None:
    made = [mid(f"{priority} {age}", priority=priority, age=age) for priority in (7500, 7000) for age in (9000, 10)]
    order = [entry.key for entry in eviction_order(inputs_of(*made))]
    assert order == ["shop/7000 10", "shop/7000 9000", "shop/7500 10", "shop/7500 9000"]


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        (1, 0, ["a"]),
        (2000, 0, ["a"]),
        (2001, 0, ["a", "c"]),  # b holds no CPU
        (0, 1, ["b"]),  # a holds no memory
        (2000, 1024, ["a", "b"]),
        (2001, 1024, ["a", "b", "c"]),
        (1000, 1025, ["a", "b", "d"]),  # once CPU is no longer short, c with CPU alone stays
        (99_000, 0, ["a", "c"]),  # all that there is does not end it
        (0, 0, []),
    ],
)
def test_as_few_as_order_allows(cpu: int, memory: int, expected: list[str]) -> None:
    pods = inputs_of(mid("a", 2000, age=1), mid("b", 0, 1024, age=2), mid("c", 2000, age=3), mid("d", 0, 64, age=4))
    assert named(select_victims(pods, short(cpu, memory), lambda _: "")) == expected


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ({"owner": ("DaemonSet", "d")}, "is of a DaemonSet, which would put it on the same node again"),
        (
            {"owner": ("Node", "n1"), "annotations": {names.ANNOTATION_CONFIG_MIRROR: "x"}},
            "is a static pod, which its node starts again",
        ),
        ({"priority": 8000}, "has a priority above Mid"),
        ({"label": "koord-prod"}, "has a priority above Mid"),
        ({"priority": 2_000_000_000, "label": "koord-mid"}, "has a priority above Mid"),
        ({"priority": 7999}, ""),
        ({"priority": 100_000, "label": "koord-mid"}, ""),  # with priority numbers of one's own the label decides
    ],
)
def test_pods_above_mid_and_those_that_come_back_are_never_evicted(what: dict[str, Any], why: str) -> None:
    (only,) = pods = inputs_of(mid("m", **what))
    selection = Selection(spared=((only, why),), short=short(1000))
    assert select_victims(pods, short(1000), lambda _: "") == (selection if why else Selection(victims=(only,)))


def test_pods_without_mid_requests_ended_or_terminating_are_not_considered() -> None:
    ended = mid("ended")
    ended["status"]["phase"] = "Succeeded"
    pods = inputs_of(pod("prod", {"cpu": "4"}), pod("label-only", priority=7000), ended, mid("out", terminating=True))
    assert select_victims(pods, short(1000), lambda _: "") == Selection(short=short(1000))


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


@given(_PODS, st.builds(short, st.integers(0, 6000), st.integers(0, 1500)), st.sets(st.integers(0, 11)))
def test_victims_are_minimal_prefix(made: list[Json], what: Any, spared: set[int]) -> None:  # noqa: ANN401
    """For any pods and shortage: in order, each victim needed at its turn, each spared pod with a reason."""
    order = eviction_order(inputs_of(*made))
    left_alone = {order[index].uid for index in spared if index < len(order)}
    selection = select_victims(order, what, lambda each: "left alone" if each.uid in left_alone else "")
    still, reasons, expected = what, {each.uid: why for each, why in selection.spared}, []
    for candidate in order:
        assert candidate.mid is not None
        if relieves(candidate, still) and not candidate.mid.terminating and candidate.uid not in reasons:
            assert (candidate.mid.kept, candidate.uid in left_alone) == ("", False)
            expected.append(candidate)
            still = subtract(still, candidate.mid_requests)
    assert (list(selection.victims), selection.short) == (expected, still)
    for entry in Resource:
        assert still[entry] == max(what[entry] - sum(victim.mid_requests[entry] for victim in expected), 0)
