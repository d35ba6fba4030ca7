"""Rules for `loadaware_cache.json`."""

from typing import Final

from tests.golden.rules.rule import Deviation, Input, Rule
from tests.golden.second_opinion.load_aware import states


def _seen_by_us_alone(vector: Input) -> bool:
    """Whether what Koordinator overlooks makes a difference at a checkpoint."""
    return states(dict(vector), ours=True) != states(dict(vector), ours=False)


RULES: Final[tuple[Rule, ...]] = (
    Deviation(
        "loadaware_cache",
        ("cache",),
        "changes of labels, annotations and phases are seen, a pod is on one node at a time, and no label or annotation"
        " makes it count for less; a usage without amounts is not known",
        ours=lambda vector, _theirs: states(dict(vector), ours=True),
        when=_seen_by_us_alone,
    ),
)
"""Its rules, those about scope first."""
