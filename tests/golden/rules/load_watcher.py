"""Rules for `load_watcher.json`."""

from typing import Final

from tests.golden.rules.rule import OutOfScope, Rule

RULES: Final[tuple[Rule, ...]] = (
    OutOfScope("load_watcher", ("datadog_response", "datadog_request"), "the Datadog provider is left out"),
)
"""Its rules, those about scope first."""
