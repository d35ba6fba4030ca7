"""One node: what it uses, what is expected, what it publishes and why, and how its agent is."""

from collections.abc import Iterator

from tools.dashboards import amounts
from tools.dashboards.model import (
    BYTES,
    NUMBER,
    PER_SECOND,
    RATIO,
    SECONDS,
    Dashboard,
    Kind,
    Panel,
    Query,
    Row,
    Variable,
)

_NODE = 'node="$node"'


def dashboard() -> Dashboard:
    """Make it."""
    return Dashboard(
        uid="headroom-node",
        title="Headroom / Node",
        what="One node: what it uses, what is expected of it, what it publishes and why, and how its agent is.",
        variables=(Variable("node", "Node", "label_values(headroom_agent_start_time, node)"),),
        rows=(
            Row("Now", tuple(_now())),
            *(Row(amounts.TITLE[resource], tuple(_resource(resource))) for resource in amounts.RESOURCES),
            Row("Learning", tuple(_learning())),
            Row("Agent", tuple(_agent())),
        ),
    )


def _now() -> Iterator[Panel]:
    for title, what, expression, unit, bad_from in (
        (
            "Since the last full report",
            "From degradeTimeMinutes on the node publishes nothing.",
            f'time() - max(headroom_agent_last_report_timestamp_seconds{{{_NODE}, kind="full"}})',
            SECONDS,
            300,
        ),
        (
            "Prod CPU predicted",
            "Share of allocatable that Prod and the system are expected to use at most.",
            f"{amounts.predicted_peak('cpu', _NODE)} / {amounts.allocatable('cpu', _NODE)}",
            RATIO,
            None,
        ),
        (
            "Prod memory predicted",
            "Share of allocatable that Prod and the system are expected to use at most.",
            f"{amounts.predicted_peak('memory', _NODE)} / {amounts.allocatable('memory', _NODE)}",
            RATIO,
            None,
        ),
        (
            "Cold pods",
            "They count at their request until they were watched for long enough.",
            f'sum(headroom_agent_pods{{{_NODE}, state="cold"}})',
            NUMBER,
            None,
        ),
        (
            "Agent runs for",
            "Since its last start.",
            f"time() - max(headroom_agent_start_time{{{_NODE}}})",
            SECONDS,
            None,
        ),
    ):
        yield Panel(title, what, (Query(expression),), unit, Kind.STAT, 4, 4, bad_from=bad_from)
    yield Panel(
        "Why it publishes nothing",
        "The reason, where there is one that is not arithmetic. kubectl headroom explain node shows what to do.",
        (Query(f"max by (reason) (headroom_manager_mid_degraded{{{_NODE}}}) == 1", "{{reason}}"),),
        kind=Kind.STAT,
        width=4,
        height=4,
    )


def _resource(resource: str) -> Iterator[Panel]:
    title, unit = amounts.TITLE[resource], amounts.UNIT[resource]
    yield Panel(
        f"{title}: used, predicted and published",
        "Used may touch the predicted peak and should seldom pass it. Mid published is below the gap between the peak "
        "and allocatable, or below what Prod requested and will not use.",
        (
            Query(amounts.allocatable(resource, _NODE), "Allocatable"),
            Query(amounts.predicted_peak(resource, _NODE), "Predicted peak"),
            Query(amounts.used(resource, _NODE), "Used"),
            Query(amounts.mid("published", resource, _NODE), "Mid published"),
            Query(amounts.mid("requested", resource, _NODE), "Mid requested"),
        ),
        unit,
        width=16,
        height=10,
    )
    yield Panel(
        f"{title} by priority band",
        "Who uses it: pods by band, and the system outside of pods.",
        (
            Query(
                f'max by (class) (headroom_agent_usage{{{_NODE}, resource="{resource}", class!="node"}})', "{{class}}"
            ),
        ),
        unit,
        width=8,
        height=10,
        stacked=True,
    )
    yield Panel(
        f"{title}: predicted peak by priority band",
        "What each band is expected to use at most, margin and cold pods included.",
        (Query(f'max by (class) (headroom_agent_peak{{{_NODE}, resource="{resource}"}})', "{{class}}"),),
        unit,
    )
    yield Panel(
        f"{title}: from prediction to Mid",
        "Reclaimable is what Prod requested and will not use; calculated is what the formula allows, published what "
        "the Node has (small changes are not written), a deficit what Mid pods hold beyond it.",
        (
            Query(amounts.reclaimable(resource, _NODE), "Reclaimable"),
            Query(amounts.mid("calculated", resource, _NODE), "Calculated"),
            Query(amounts.mid("published", resource, _NODE), "Mid published"),
            Query(amounts.mid("deficit", resource, _NODE), "Deficit"),
        ),
        unit,
    )


def _learning() -> Iterator[Panel]:
    yield Panel(
        "Pods, warm and cold",
        "Warm ones are predicted from their history.",
        (Query(f"sum by (state) (headroom_agent_pods{{{_NODE}}})", "{{state}}"),),
        width=8,
        stacked=True,
    )
    yield Panel(
        "Observed time behind the models",
        "Median by kind. What was observed for less than the cold start period is cold.",
        (Query(f'max by (kind) (headroom_agent_model_observed_seconds{{{_NODE}, stat="median"}})', "{{kind}}"),),
        SECONDS,
        width=8,
    )
    yield Panel(
        "Age of what was learned",
        "Since the last training round, and since it was last saved.",
        (
            Query(f"time() - max(headroom_agent_last_training_timestamp_seconds{{{_NODE}}})", "Last training"),
            Query(f"time() - (max(headroom_agent_last_checkpoint_timestamp_seconds{{{_NODE}}}) > 0)", "Last saved"),
        ),
        SECONDS,
        width=8,
    )


def _agent() -> Iterator[Panel]:
    steps = f"headroom_agent_step_seconds_sum{{{_NODE}}}"
    yield Panel(
        "What the agent spends its time on",
        "Share of one core, by step.",
        (Query(f"sum by (step) (rate({steps}[$__rate_interval]))", "{{step}}"),),
        RATIO,
        width=8,
        stacked=True,
    )
    yield Panel(
        "Gaps and failures",
        "Values that should have been measured and were not, and steps that failed. 0 is good.",
        (
            Query(
                f"sum by (metric, reason) (rate(headroom_agent_gaps_total{{{_NODE}}}[$__rate_interval]))",
                "gap: {{metric}} {{reason}}",
            ),
            Query(
                f"sum by (step, error) (rate(headroom_agent_failures_total{{{_NODE}}}[$__rate_interval]))",
                "{{step}}: {{error}}",
            ),
        ),
        PER_SECOND,
        width=8,
    )
    yield Panel(
        "Reports",
        "By kind and result.",
        (
            Query(
                f"sum by (kind, result) (rate(headroom_agent_reports_total{{{_NODE}}}[$__rate_interval]))",
                "{{kind}} {{result}}",
            ),
        ),
        PER_SECOND,
        width=8,
    )
    yield Panel(
        "Database",
        "On disk, and what of it holds data.",
        (
            Query(f"max(headroom_agent_store_bytes{{{_NODE}}})", "On disk"),
            Query(f"max(headroom_agent_store_used_bytes{{{_NODE}}})", "Holds data"),
        ),
        BYTES,
    )
    yield Panel(
        "What is not on disk, late or dropped",
        "Ticks that are in memory alone or were left out, fields that the cluster's NodeMetric does not keep. "
        "0 is good.",
        (
            Query(f"max(headroom_agent_store_unwritten_ticks{{{_NODE}}})", "Unwritten ticks"),
            Query(f"sum(increase(headroom_agent_ticks_late_total{{{_NODE}}}[$__rate_interval]))", "Late ticks"),
            Query(f"max(headroom_agent_report_dropped_fields{{{_NODE}}})", "Dropped fields"),
        ),
    )
