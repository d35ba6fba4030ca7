"""Rules for `loadaware_estimator.json`."""

from typing import Final

from tests.golden.rules.loadaware_filter import REASON
from tests.golden.rules.rule import Deviation, Input, Rule
from tests.golden.second_opinion.load_aware import Amounts, effective, estimate


def _estimated(vector: Input, *, ours: bool) -> Amounts:
    args = effective(vector.get("args") or {}, defaults=bool(vector.get("applyDefaults")))
    return estimate(dict(vector["pod"]), args, ours=ours)


RULES: Final[tuple[Rule, ...]] = (
    Deviation(
        "loadaware_estimator",
        ("estimatePod",),
        REASON,
        ours=lambda vector, _theirs: {"estimated": _estimated(vector, ours=True)},
        when=lambda vector: _estimated(vector, ours=True) != _estimated(vector, ours=False),
    ),
)
"""Its rules, those about scope first."""
