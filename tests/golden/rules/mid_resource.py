"""Rules for `mid_resource.json`."""

from typing import Final

from tests.golden.rules.rule import INTERNALS, OutOfScope, Rule

RULES: Final[tuple[Rule, ...]] = (
    OutOfScope(
        "mid_resource",
        (
            "calculate_node_resource",
            "update_node_resource",
            "min_resource_list",
            "resource_list_equal_ignore_zero",
            "is_resource_diff",
            "mask_cpu_memory",
            "reconcile_noderesource",
            "nodemetric_event",
        ),
        INTERNALS,
    ),
    OutOfScope("mid_resource", ("node_safety_margin",), "the Batch tier is left out"),
    OutOfScope(
        "mid_resource",
        ("pod_numa_request_and_usage", "add_zone_resource_list", "pod_unknown_numa_usage", "divide_resource_list"),
        "NUMA is left out",
    ),
)
"""Its rules, those about scope first."""
