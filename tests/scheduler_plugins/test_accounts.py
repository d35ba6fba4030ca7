"""Sums over pods that plugins want kept per node."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from scheduler_plugins.snapshot.accounts import Accounts
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tests.scheduler_plugins.objects import NOW, node, pod


@dataclass(frozen=True)
class Two:
    given: tuple[int, ...]

    def width(self) -> int:
        return 2

    def amounts(self, _pod: Mapping[str, Any]) -> tuple[int, ...]:
        return self.given


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((1,), "gives 1 numbers of a pod, not 2"),
        ((0, 2**53 + 1), "gives 9007199254740993 of a pod"),
        ((-(2**53) - 1, 0), "gives -9007199254740993 of a pod"),
    ],
)
def test_what_cannot_be_summed_is_refused(given: tuple[int, ...], told: str) -> None:
    with pytest.raises(ValueError, match=f"greedy {told}"):
        Accounts({"greedy": Two(given)}).read(pod("p"))


class _Broken(Two):
    def amounts(self, _pod: Mapping[str, Any]) -> tuple[int, ...]:
        return self.given[9:][0], 0


def test_plugin_that_fails_makes_the_pod_unreadable() -> None:
    with pytest.raises(ValueError, match="broken cannot read it: IndexError: tuple index out of range"):
        Accounts({"broken": _Broken((1, 2))}).read(pod("p"))


def test_largest_amounts_of_many_pods_are_summed() -> None:
    cache = ClusterCache(LoadRules(), {"large": Two((2**53, -(2**53)))})
    cache.put_node(node("a"))
    for number in range(250):
        cache.put_pod(pod(f"p{number}", node="a"), NOW)
    assert cache.freeze(NOW).bound("large").tolist() == [[250 * 2**53, -250 * 2**53]]


def test_amounts_beyond_all_sums_stop_nobody() -> None:
    cache = ClusterCache(LoadRules(), {"large": Two((2**53, -(2**53)))})
    for name in ("a", "b"):
        cache.put_node(node(name))
    for number in range(1100):
        cache.put_pod(pod(f"p{number}", node="a"), NOW)
    found, _ = cache.select(["a", "b"], NOW)
    assert found.sums[1].tolist() == [0, 0]
    assert found.sums[0][0] > 2**60
    assert found.sums[0][1] < -(2**60)
