"""Rules for `loadaware_score.json`."""

from typing import Final

from tests.golden.rules.loadaware_filter import REASON
from tests.golden.rules.rule import Deviation, Input, Rule
from tests.golden.second_opinion.load_aware_verdict import question, score


def _differs(vector: Input) -> bool:
    return score(question(dict(vector), ours=True)) != score(question(dict(vector), ours=False))


RULES: Final[tuple[Rule, ...]] = (
    Deviation(
        "loadaware_score",
        ("score",),
        REASON,
        ours=lambda vector, _theirs: {"score": score(question(dict(vector), ours=True)), "code": "Success"},
        when=_differs,
    ),
)
"""Its rules, those about scope first."""
