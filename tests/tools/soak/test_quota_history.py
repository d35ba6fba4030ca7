"""The judge of histories of quotas: good ones have no faults, and each kind of fault is found."""

import pytest

from tools.soak.quota_history import Away, Bound, Ended, Event, Evicted, HoldWritten, LeaseTaken, QuotaWritten, faults

MAX = QuotaWritten(0, "a", {"cpu": 2000})


def _bound(at: float, uid: str, cpu: int = 1000, created: float = 1) -> Bound:
    return Bound(at, uid, "a", {"cpu": cpu, "memory": 1}, created)


def _hold(at: float, *victims: str, by: str = "one") -> HoldWritten:
    return HoldWritten(at, by, "claimant", frozenset(victims))


def _evicted(at: float, victim: str, by: str = "one") -> Evicted:
    return Evicted(at, by, victim, "claimant")


LEADS = LeaseTaken(0, "one")


@pytest.mark.parametrize(
    "history",
    [
        [],
        [MAX, _bound(2, "p"), _bound(3, "q")],
        [MAX, _bound(2, "p"), _bound(3, "q"), Ended(4, "p"), _bound(5, "r")],
        [MAX, _bound(2, "p", 1500), Bound(3, "q", "b", {"cpu": 9000}, 1)],  # who has no quota is not limited
        [_bound(0, "p", 5000), QuotaWritten(1, "a", {"cpu": 2000})],  # there before the quota
        [MAX, QuotaWritten(5, "a", {"cpu": 100}), _bound(6, "p", created=4)],  # on its way since before the edit
        [MAX, QuotaWritten(5, "a", None), _bound(6, "p", 9000)],  # the quota was deleted
        [LEADS, _hold(1, "v", "w"), _evicted(2, "v"), _evicted(3, "w"), _hold(4)],
        [LEADS, _hold(1, "v"), LeaseTaken(2, "two"), _evicted(3, "v", by="two")],
        [LEADS, _hold(1, "v"), _hold(2, "w"), _evicted(3, "w")],  # withdrawn, and decided anew
    ],
)
def test_good(history: list[Event]) -> None:
    """What may be is no fault."""
    assert faults(history) == []


@pytest.mark.parametrize(
    ("history", "fault"),
    [
        ([MAX, _bound(2, "p"), _bound(3, "q"), _bound(4, "r", 1)], "pod r brought a to 2001 cpu, max is 2000"),
        ([MAX, QuotaWritten(5, "a", {"cpu": 100}), _bound(6, "p", created=5.5)], "max is 100"),
        ([MAX, QuotaWritten(5, "a", {"cpu": 100}), _bound(700, "p")], "max is 100"),  # nobody is so long on his way
        ([MAX, _bound(2, "p"), _bound(3, "p")], "bound twice"),
        ([MAX, QuotaWritten(1, "a", None), MAX, _bound(700, "p", 9000, 699)], "max is 2000"),
        ([LEADS, _hold(1, "v"), _evicted(2, "v"), _evicted(3, "v")], "v was evicted for claimant, and for claimant"),
        ([LEADS, _evicted(2, "v")], "whose hold does not name it"),
        ([LEADS, _hold(1, "v"), _hold(2, "w"), _evicted(3, "v")], "whose hold does not name it"),
        ([LEADS, _hold(1, "v"), _bound(2, "claimant"), _evicted(3, "v")], "which was bound already"),
        ([_hold(1, "v")], "while nobody held the lease"),
        ([LEADS, _hold(1, "v"), LeaseTaken(2, "two"), _evicted(3, "v")], "one wrote the eviction of v while two"),
        ([LEADS, _hold(1, "v"), _evicted(2, "v", by="two")], "two wrote the eviction of v while one held"),
        ([LEADS, LeaseTaken(1, ""), _hold(2, "v")], "while nobody held the lease"),
    ],
)
def test_bad(history: list[Event], fault: str) -> None:
    """What must not be is told, with what was written and by whom."""
    (found,) = faults(history)
    assert fault in found


@pytest.mark.parametrize(
    ("at", "created", "who", "many"),
    [
        (12, 11, "one", 0),  # let through while it was away
        (19, 11, "one", 0),  # the attempt may have begun while it was away
        (30, 11, "one", 1),  # nobody is so long on his way
        (19, 18, "one", 1),  # made when it answered again
        (9, 1, "one", 1),  # bound before it was away
        (12, 11, "two", 1),  # another one was away
    ],
)
def test_away(at: float, created: float, who: str, many: int) -> None:
    """What may have been let through while the extender was away is no fault, and counts from then on."""
    history: list[Event] = [MAX, LEADS, _bound(at, "p", 2001, created)]
    assert len(faults(history, away=[Away(10, 15, who)])) == many
    (found,) = faults([*history[:-1], _bound(12, "p", 2001, 11), _bound(40, "q", 1, 39)], away=[Away(10, 15, "one")])
    assert "pod q brought a to 2002" in found


@pytest.mark.parametrize(("unheard", "many"), [(-1, 1), (0.5, 1), (1, 0)])
def test_unheard_binding(unheard: float, many: int) -> None:
    """Whoever evicts may not have heard yet that the pod is bound for which he does."""
    history: list[Event] = [LEADS, _hold(1, "v"), _bound(2, "claimant"), _evicted(3, "v")]
    assert len(faults(history, unheard=unheard)) == many
