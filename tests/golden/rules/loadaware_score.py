"""Rules for `loadaware_score.json`."""

from typing import Final

from tests.golden.rules.loadaware_filter import has_negative_factors
from tests.golden.rules.rule import Deviation, Rule
from tests.golden.second_opinion.load_aware_verdict import question, score

RULES: Final[tuple[Rule, ...]] = (
    Deviation(
        "loadaware_score",
        ("score",),
        "negative annotation factors are ignored",
        ours=lambda vector, _theirs: {"score": score(question(dict(vector), ours=True)), "code": "Success"},
        when=has_negative_factors,
    ),
)
"""Its rules, those about scope first."""
