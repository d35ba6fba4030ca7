"""Rules for `colocation_config.json`."""

from typing import Final

from tests.golden.rules.rule import INTERNALS, OutOfScope, Rule

RULES: Final[tuple[Rule, ...]] = (
    OutOfScope(
        "colocation_config",
        (
            "webhook_cfg_not_empty_and_changed",
            "webhook_create_profile_checker",
            "webhook_checker_init",
            "configmap_event",
            "is_config_available",
            "is_node_cfg_valid",
        ),
        INTERNALS,
    ),
)
"""Its rules, those about scope first."""
