"""Rules for `peak_predictor.json`."""

from typing import Final

from tests.golden.rules.rule import INTERNALS, OutOfScope, Rule

RULES: Final[tuple[Rule, ...]] = (
    OutOfScope(
        "peak_predictor",
        ("model_gc", "checkpoint_schedule", "checkpoint_restore", "checkpoint_file", "uid_generator"),
        INTERNALS,
    ),
)
"""Its rules, those about scope first."""
