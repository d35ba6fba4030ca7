"""Rules for `loadaware_filter.json`."""

from typing import Any, Final

from tests.golden.rules.rule import Deviation, Input, Rule
from tests.golden.second_opinion.load_aware_verdict import question, reason

REASON: Final = (
    "negative annotation factors are ignored, what a pod requests natively counts whatever its class, and a usage"
    " without amounts is not known"
)


def _ours(vector: Input, _theirs: Any) -> Any:  # noqa: ANN401
    found = reason(question(dict(vector), ours=True))
    return {"reason": found, "allowed": found is None, "code": "Success" if found is None else "Unschedulable"}


def _differs(vector: Input) -> bool:
    return reason(question(dict(vector), ours=True)) != reason(question(dict(vector), ours=False))


RULES: Final[tuple[Rule, ...]] = (Deviation("loadaware_filter", ("filter",), REASON, ours=_ours, when=_differs),)
"""Its rules, those about scope first."""
