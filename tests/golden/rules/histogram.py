"""Rules for `histogram.json`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tests.golden.rules.rule import Deviation, Input, Rule


def _steps(steps: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for step in steps:
        yield step
        yield from _steps(step.get("other") or ())


def _refused_by_us(vector: Input) -> bool:
    """Whether a step adds a negative weight or merges other buckets, which makes the peer panic."""
    steps = list(_steps(vector["steps"]))
    return any(step.get("weight", 0) < 0 for step in steps) or any(
        step.get("otherOptions", vector["options"]) != vector["options"] for step in steps
    )


RULES: Final[tuple[Rule, ...]] = (
    Deviation(
        "histogram",
        ("sequence",),
        "where the peer panics we refuse with an error",
        ours=lambda _input, _theirs: {"error": True},
        when=_refused_by_us,
    ),
)
"""Its rules, those about scope first."""
