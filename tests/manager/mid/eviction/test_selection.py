from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import names
from headroom.cluster.typed_pod import typed_pod
from manager.inputs import Amounts, PodInputs, total
from manager.mid.eviction.selection import Selection, beyond_requests, select_victims, subtract
from tests.manager.mid.eviction.evicting_node import inputs_of, mid, short
from tests.support.objects import Json, pod


def named(selection: Selection) -> list[str]:
    return [victim.key.removeprefix("shop/") for victim in selection.victims]


def choose(
    pods: Iterable[Json], cpu: int = 0, memory: int = 0, usage: Mapping[str, Amounts] | None = None
) -> list[str]:
    in_shop = {f"shop/{name}": amounts for name, amounts in (usage or {}).items()}
    return named(select_victims(inputs_of(*pods), short(cpu, memory), lambda _: "", in_shop))


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        (1, 0, ["a"]),
        (2000, 0, ["a"]),
        (2001, 0, ["a", "c"]),  # b holds no CPU
        (0, 1, ["b"]),  # a holds no memory
        (2000, 1024, ["a", "b"]),
        (2001, 1024, ["b", "a", "c"]),
        (1000, 1025, ["a", "b", "d"]),  # once CPU is no longer short, c with CPU alone stays
        (99_000, 0, ["a", "c"]),  # all that there is does not end it
        (0, 0, []),
    ],
)
def test_youngest_of_equal_pods(cpu: int, memory: int, expected: list[str]) -> None:
    pods = [mid("a", 2000, age=1), mid("b", 0, 1024, age=2), mid("c", 2000, age=3), mid("d", 0, 64, age=4)]
    assert choose(pods, cpu, memory) == expected


def test_usage_beyond_requests_decides_first() -> None:
    """A pod that uses 1.3 GiB of a request of 64 MiB goes alone, whatever its priority; CPU does not count for it."""
    pods = [mid("a", 0, 64, priority=7900), mid("b", 0, 64), mid("c", 0, 3072), mid("d", 0, 64)]
    usage = {"a": short(0, 1331), "b": short(9000, 20), "c": short(0, 1), "d": short(0, 600)}
    assert choose(pods, memory=1000, usage=usage) == ["a"]
    assert choose(pods, memory=1500, usage=usage) == ["a", "d"]
    assert choose(pods, memory=2500, usage=usage) == ["a", "d", "c"]  # c alone would end it, and a and d cause it
    assert choose(pods, memory=1000, usage={"b": short(0, 70)}) == ["c"]  # 6 MiB beyond a request count as none
    assert choose(pods, cpu=500, usage=usage) == ["b"]


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_eviction_priority_before_priority(field: str) -> None:
    """`koordinator.sh/eviction-priority`, as label or annotation, comes before the priority; 0 is the default."""

    def stated(pod: Json, text: str) -> Json:
        pod["metadata"][field] = {names.LABEL_EVICTION_PRIORITY: text}
        return pod

    pods = [mid("plain"), stated(mid("first", priority=7900), "-5"), stated(mid("last", priority=7000), "10")]
    assert choose(pods, cpu=3000) == ["first", "plain", "last"]
    assert choose(map(typed_pod, pods), cpu=3000) == ["first", "plain", "last"]  # as the watch decodes them
    for text in ("high", "1.5", "99999999999", ""):
        assert choose([stated(mid("a"), text), mid("b", priority=6999)], cpu=1) == ["b"]


def test_fewest_evictions_among_equals() -> None:
    """Pods of one priority: the one that ends the shortage alone, else the largest; priority comes before number."""
    pods = [mid("a", 500, age=1), mid("b", 600, age=2), mid("c", 3000, age=3), mid("d", 1100, age=4)]
    assert choose(pods, cpu=1000) == ["c"]
    assert choose(pods, cpu=1000, usage={"b": Amounts(700)}) == ["b", "a"]
    assert choose([mid("low", 500), mid("less", 600), mid("high", 3000, priority=7500)], cpu=1000) == ["less", "low"]
    assert choose([mid("low", 64), mid("high", 3000, priority=7500)], cpu=1000) == ["high"]


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ({"owner": ("DaemonSet", "d")}, "is of a DaemonSet, which would put it on the same node again"),
        (
            {"owner": ("Node", "n1"), "annotations": {names.ANNOTATION_CONFIG_MIRROR: "x"}},
            "is a static pod, which its node starts again",
        ),
        ({"group": "schedulingGroup"}, "is of a scheduling group, which needs it"),
        ({"group": "workloadRef"}, "is of a scheduling group, which needs it"),
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
def test_no_victim_too_many(made: list[Json], what: Amounts, spared: set[int]) -> None:
    """For any pods and shortage: the victims end what can be ended, and each of them is needed for it."""
    pods = inputs_of(*made)
    left_alone = {pods[index].uid for index in spared if index < len(pods)}
    usage = {pod.key: Amounts(len(pod.key) * 100, pod.mid_requests.memory * 2) for pod in pods[::2]}
    selection = select_victims(pods, what, lambda pod: "left alone" if pod.uid in left_alone else "", usage)

    def left(victims: Iterable[PodInputs]) -> Amounts:
        return subtract(what, total(pod.mid_requests + beyond_requests(pod, usage) for pod in victims))

    evictable = [
        pod
        for pod in pods
        if pod.holds_mid and pod.mid and not (pod.mid.terminating or pod.mid.kept or pod.uid in left_alone)
    ]
    assert selection.short == left(selection.victims) == left(evictable)
    assert all(
        beyond_requests(victim, usage) or left(pod for pod in selection.victims if pod != victim) != selection.short
        for victim in selection.victims
    )
    assert set(selection.victims) <= set(evictable)
    assert all(why for _, why in selection.spared)
