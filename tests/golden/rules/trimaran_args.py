"""Rules for `trimaran_args.json`."""

from typing import Final

from tests.golden.rules.rule import INTERNALS, OutOfScope, Rule

RULES: Final[tuple[Rule, ...]] = (
    OutOfScope(
        "trimaran_args",
        ("defaults", "decode_plugin_config", "encode_plugin_args"),
        "plugins that are left out",
        when=lambda vector: any(
            name in str(vector.get("kind", vector.get("plugin", "")))
            for name in ("TargetLoadPacking", "LoadVariationRiskBalancing")
        ),
    ),
    OutOfScope("trimaran_args", ("encode_plugin_args", "scheduled_pod_cache_cleanup"), INTERNALS),
)
"""Its rules, those about scope first."""
