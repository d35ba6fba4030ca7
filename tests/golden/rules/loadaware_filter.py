"""Rules for `loadaware_filter.json`."""

from typing import Any, Final

from tests.golden.rules.rule import Deviation, Input, Rule
from tests.golden.second_opinion.load_aware import negative_factors
from tests.golden.second_opinion.load_aware_verdict import question, reason


def has_negative_factors(vector: Input) -> bool:
    """Whether the pod, or one that is there, has a negative factor that counts."""
    pods = [vector["pod"], *(assigned["pod"] for assigned in vector.get("assignedPods") or ())]
    allowed = (vector.get("args") or {}).get("allowCustomizeEstimation")
    return bool(allowed) and any(negative_factors(pod) for pod in pods)


def _ours(vector: Input, _theirs: Any) -> Any:  # noqa: ANN401
    found = reason(question(dict(vector), ours=True))
    return {"reason": found, "allowed": found is None, "code": "Success" if found is None else "Unschedulable"}


RULES: Final[tuple[Rule, ...]] = (
    Deviation(
        "loadaware_filter",
        ("filter",),
        "negative annotation factors are ignored",
        ours=_ours,
        when=has_negative_factors,
    ),
)
"""Its rules, those about scope first."""
