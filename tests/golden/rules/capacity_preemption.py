"""Rules for `capacity_preemption.json`."""

from typing import Any, Final

from tests.golden.rules.rule import Deviation, Input, Rule
from tests.golden.second_opinion import preemption


def _differs(vector: Input) -> bool:
    return preemption.preempt(vector, quirks=True) != preemption.preempt(vector, quirks=False)


def _ours(vector: Input, theirs: Any) -> dict[str, Any]:  # noqa: ANN401
    answer = preemption.preempt(vector, quirks=False)
    ineligible = theirs.get("postFilter", {}).get("nominatedNode", "") is None
    kept = {"postFilter"} if ineligible and theirs["postFilter"].get("code") == "Unschedulable" else set()
    return {**theirs, **{key: answer[key] for key in answer if key in theirs.keys() - kept}}


RULES: Final[tuple[Rule, ...]] = (
    Deviation(
        "capacity_preemption",
        ("preempt",),
        "an eviction that a budget forbids is counted also where only the quota needs it, and a pod that is in the way "
        "of both node and quota is evicted once",
        ours=_ours,
        when=_differs,
    ),
)
"""Its rules."""
