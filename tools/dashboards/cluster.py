"""The cluster: what it has, uses and publishes, and whether Headroom is well."""

from collections.abc import Iterator

from tools.dashboards import amounts
from tools.dashboards.model import NUMBER, PER_SECOND, RATIO, SECONDS, Dashboard, Kind, Panel, Query, Row

_DEGRADED = "max by (node, reason) (headroom_manager_mid_degraded) == 1"


def dashboard() -> Dashboard:
    """Make it."""
    return Dashboard(
        uid="headroom-cluster",
        title="Headroom / Cluster",
        what="What the cluster has, uses and publishes as Mid, what is in the way, and whether Headroom is well.",
        rows=(
            Row("Now", tuple(_now())),
            Row("Capacity", tuple(panel for resource in amounts.RESOURCES for panel in _capacity(resource))),
            Row("Nodes", tuple(_nodes())),
            Row("Mid pods that hold more than may be published", tuple(_deficits())),
            Row("Shadow mode", tuple(_shadow())),
            Row("Manager and agents", tuple(_services())),
        ),
    )


def _now() -> Iterator[Panel]:
    for title, what, expression, unit, bad_from, bad_below in (
        (
            "Nodes",
            "Nodes that the manager knows.",
            'max(headroom_manager_known_objects{kind="Node"})',
            NUMBER,
            None,
            1,
        ),
        ("Agents", "Agents that Prometheus reaches.", "count(headroom_agent_start_time)", NUMBER, None, 1),
        (
            "Nodes that publish Mid",
            "Nodes with Mid resources above zero. 0 while colocation is disabled, or all nodes learn.",
            'count(max by (node) (headroom_manager_mid_published{resource="cpu"}) > 0) or vector(0)',
            NUMBER,
            None,
            None,
        ),
        (
            "Nodes that publish nothing",
            "Nodes with a reason that is not arithmetic; the table below names it.",
            f"count({_DEGRADED}) or vector(0)",
            NUMBER,
            None,
            None,
        ),
        (
            "Managers that lead",
            "Exactly one writes. With none Mid resources stay as they are.",
            "sum(headroom_manager_leading)",
            NUMBER,
            2,
            1,
        ),
        (
            "Configuration is valid",
            "1: the ConfigMap is in force. 0: the last good one is; kubectl headroom config check shows why.",
            "min(headroom_manager_config_valid)",
            NUMBER,
            None,
            1,
        ),
    ):
        yield Panel(title, what, (Query(expression),), unit, Kind.STAT, 4, 4, bad_from=bad_from, bad_below=bad_below)


def _capacity(resource: str) -> Iterator[Panel]:
    title, unit = amounts.TITLE[resource], amounts.UNIT[resource]
    yield Panel(
        f"{title} of all nodes",
        "The gap between what is predicted at most and what is allocatable is what overcommit can use; "
        "Mid published is the part of it that the formula allows.",
        (
            Query(f"sum({amounts.allocatable(resource)})", "Allocatable"),
            Query(f"sum({amounts.predicted_peak(resource)})", "Predicted peak"),
            Query(f"sum({amounts.used(resource)})", "Used"),
            Query(f"sum({amounts.mid('published', resource)})", "Mid published"),
            Query(f"sum({amounts.mid('requested', resource)})", "Mid requested"),
        ),
        unit,
    )
    yield Panel(
        f"{title}: share used, and share of Mid that is allocated",
        "A low share used with all of Mid allocated means that the formula could allow more; a low share allocated "
        "means that there is no demand for Mid.",
        (
            Query(f"sum({amounts.used(resource)}) / sum({amounts.allocatable(resource)})", "Used of allocatable"),
            Query(
                f"sum({amounts.mid('requested', resource)}) / (sum({amounts.mid('published', resource)}) > 0)",
                "Requested of Mid published",
            ),
        ),
        RATIO,
    )


def _nodes() -> Iterator[Panel]:
    yield Panel(
        "Nodes that publish nothing, by reason",
        "ReportExpired and NoReport: check the agent of the node. ColocationDisabled: off by configuration.",
        (Query(f"count by (reason) ({_DEGRADED})", "{{reason}}"),),
        stacked=True,
    )
    yield Panel(
        "Which nodes publish nothing",
        "Each with its reason; kubectl headroom explain node shows what to do.",
        (Query(_DEGRADED, "degraded"),),
        kind=Kind.TABLE,
    )
    for resource in amounts.RESOURCES:
        unsold = f"{amounts.mid('published', resource)} - {amounts.mid('requested', resource)}"
        yield Panel(
            f"Most Mid {amounts.TITLE[resource]} left over",
            "Published and not requested: Mid pods fit here.",
            (Query(f"topk(10, {unsold})", "{{node}}"),),
            amounts.UNIT[resource],
            Kind.BARS,
        )
    yield Panel(
        "Every node",
        "Each node's usage, the predicted peak of Prod and the system, and what it publishes. A node's name leads to "
        "its own dashboard.",
        tuple(
            query
            for resource in amounts.RESOURCES
            for query in (
                Query(
                    f"{amounts.used(resource)} / {amounts.allocatable(resource)}",
                    f"{amounts.TITLE[resource]} used",
                    RATIO,
                ),
                Query(
                    f"{amounts.predicted_peak(resource)} / {amounts.allocatable(resource)}",
                    f"{amounts.TITLE[resource]} predicted peak",
                    RATIO,
                ),
                Query(
                    amounts.mid("published", resource),
                    f"Mid {amounts.TITLE[resource]} published",
                    amounts.UNIT[resource],
                ),
                Query(
                    amounts.mid("requested", resource),
                    f"Mid {amounts.TITLE[resource]} requested",
                    amounts.UNIT[resource],
                ),
            )
        ),
        kind=Kind.TABLE,
        width=24,
        height=10,
    )


def _deficits() -> Iterator[Panel]:
    for resource in amounts.RESOURCES:
        yield Panel(
            f"{amounts.TITLE[resource]} requested beyond what may be published",
            "0 is good. What stays for long is evicted where midEviction.mode is on; kubectl headroom explain node "
            "names the pods.",
            (Query(f"topk(10, {amounts.mid('deficit', resource)})", "{{node}}"),),
            amounts.UNIT[resource],
            width=8,
        )
    yield Panel(
        "Evictions of Mid pods",
        "By what became of them, and pods whose turn it was and that were left alone.",
        (
            Query(
                "sum by (result) (rate(headroom_manager_mid_evictions_total[$__rate_interval]))",
                "{{result}}",
            ),
            Query(
                "sum by (reason) (rate(headroom_manager_mid_evictions_skipped_total[$__rate_interval]))",
                "left alone: {{reason}}",
            ),
        ),
        PER_SECOND,
        width=8,
    )


def _shadow() -> Iterator[Panel]:
    yield Panel(
        "Nodes in shadow mode",
        "They calculate, and write nothing to Nodes.",
        (Query("max(headroom_manager_shadow_nodes)"),),
        kind=Kind.STAT,
        width=4,
    )
    for resource, divided in (("cpu", " / 1000"), ("memory", "")):
        yield Panel(
            f"{amounts.TITLE[resource]} that they would publish",
            "Now, and on average since they are in shadow mode.",
            (
                Query(f'max(headroom_manager_shadow_all_offered{{resource="{resource}"}}){divided}', "Now"),
                Query(f'max(headroom_manager_shadow_all_mean{{resource="{resource}"}}){divided}', "Mean"),
            ),
            amounts.UNIT[resource],
            width=7,
        )
    yield Panel(
        "Share of the time in which that would have been too much",
        "Of the time that reports could evaluate. Publish where it is small enough for you.",
        (
            Query(
                "max by (resource) (headroom_manager_shadow_all_too_much_seconds) / on () group_left ()"
                " (max(headroom_manager_shadow_all_observed_seconds) > 0)",
                "{{resource}}",
            ),
        ),
        RATIO,
        width=6,
    )


def _services() -> Iterator[Panel]:
    yield Panel(
        "Time to reconcile one node",
        "Of the manager, writes included.",
        (
            Query(amounts.quantile(0.5, "headroom_manager_reconcile_seconds"), "median"),
            Query(amounts.quantile(0.99, "headroom_manager_reconcile_seconds"), "99 %"),
        ),
        SECONDS,
        width=8,
    )
    yield Panel(
        "Writes to the API server",
        "By what is written, and what became of it. In a quiet cluster next to none.",
        (
            Query(
                "sum by (what, result) (rate(headroom_manager_writes_total[$__rate_interval]))",
                "{{what}} {{result}}",
            ),
        ),
        PER_SECOND,
        width=8,
    )
    yield Panel(
        "Nodes that wait for the manager",
        "Falls to 0 soon after every change.",
        (Query("max(headroom_manager_queue_nodes)", "Nodes"),),
        width=8,
    )
    yield Panel(
        "Memory of the manager",
        "Resident memory of every replica.",
        (Query("process_resident_memory_bytes and on (instance) headroom_manager_leading", "{{instance}}"),),
        amounts.UNIT["memory"],
        width=8,
    )
    yield Panel(
        "Full reports that are overdue",
        "The ten agents that are furthest behind. 0 is good; from degradeTimeMinutes on their nodes publish nothing.",
        (Query("topk(10, max by (node) (headroom_agent_report_lag_seconds))", "{{node}}"),),
        SECONDS,
        width=8,
    )
    yield Panel(
        "Edits of the configuration that the webhook validated",
        "By its answer.",
        (
            Query(
                "sum by (result) (rate(headroom_manager_webhook_reviews_total[$__rate_interval]))",
                "{{result}}",
            ),
        ),
        PER_SECOND,
        width=8,
    )
