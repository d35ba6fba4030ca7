"""The scheduler's extender: how fast it answers, what it refuses, how fresh its knowledge is, and who waits."""

from collections.abc import Iterator

from tools.dashboards import amounts
from tools.dashboards.model import NUMBER, PER_SECOND, SECONDS, Dashboard, Kind, Panel, Query, Row

_REQUESTS = "headroom_scheduler_request_seconds"


def dashboard() -> Dashboard:
    """Make it."""
    return Dashboard(
        uid="headroom-scheduler",
        title="Headroom / Scheduler",
        what="How fast the extender answers kube-scheduler, what it refuses, how fresh its knowledge is, who waits.",
        rows=(
            Row("Now", tuple(_now())),
            Row("Requests of kube-scheduler", tuple(_requests())),
            Row("What is refused", tuple(_refused())),
            Row("What it knows", tuple(_knowledge())),
            Row("Pods that wait", tuple(_waiting())),
            Row("Providers of metrics", tuple(_providers())),
        ),
    )


def _now() -> Iterator[Panel]:
    for title, what, expression, unit, bad_from, bad_below in (
        ("Extenders", "Replicas that Prometheus reaches.", "count(headroom_scheduler_nodes)", NUMBER, None, 1),
        (
            "Replicas that lead",
            "One decides about evictions and writes the status of quotas.",
            "sum(headroom_scheduler_leads)",
            NUMBER,
            2,
            1,
        ),
        ("Nodes known", "The least that a replica knows.", "min(headroom_scheduler_nodes)", NUMBER, None, 1),
        (
            "Age of the snapshot",
            "Since the API server was last heard about one kind of object. From 180 s on the extender is unhealthy.",
            "max(headroom_scheduler_snapshot_age_seconds)",
            SECONDS,
            180,
            None,
        ),
        (
            "Pods that wait",
            "Refused on every node, and remembered until something changes for them.",
            "max(headroom_scheduler_waiting_pods)",
            NUMBER,
            None,
            None,
        ),
        (
            "Objects that cannot be read",
            "Their last good state counts; the log names them.",
            "max(headroom_scheduler_unreadable_objects)",
            NUMBER,
            1,
            None,
        ),
    ):
        yield Panel(title, what, (Query(expression),), unit, Kind.STAT, 4, 4, bad_from=bad_from, bad_below=bad_below)


def _requests() -> Iterator[Panel]:
    yield Panel(
        "Requests",
        "By verb and outcome. refused_all are pods for which no node was left; errors let kube-scheduler go on without "
        "the extender, or wait.",
        (
            Query(
                f"sum by (verb, outcome) (rate({_REQUESTS}_count[$__rate_interval]))",
                "{{verb}} {{outcome}}",
            ),
        ),
        PER_SECOND,
        width=8,
    )
    yield Panel(
        "Time to answer",
        "From a request's body to the answer: what the extender adds to the placement of every pod.",
        (
            Query(amounts.quantile(0.5, _REQUESTS, "verb, "), "{{verb}}, median"),
            Query(amounts.quantile(0.99, _REQUESTS, "verb, "), "{{verb}}, 99 %"),
        ),
        SECONDS,
        width=8,
    )
    yield Panel(
        "Time in plugins",
        "Mean time of one call, by plugin and step.",
        (
            Query(
                "sum by (plugin, step) (rate(headroom_scheduler_plugin_seconds_sum[$__rate_interval]))"
                " / (sum by (plugin, step) (rate(headroom_scheduler_plugin_seconds_count[$__rate_interval])) > 0)",
                "{{plugin}} {{step}}",
            ),
        ),
        SECONDS,
        width=8,
    )


def _refused() -> Iterator[Panel]:
    yield Panel(
        "Pods refused on every node, by reason",
        "A pod counts once for each reason that occurred on a node. The pod's event has the arithmetic.",
        (
            Query(
                "sum by (reason) (rate(headroom_scheduler_refused_pods_total[$__rate_interval]))",
                "{{reason}}",
            ),
        ),
        PER_SECOND,
        stacked=True,
    )
    yield Panel(
        "Trouble",
        "Plugins that failed, and requests that could not be answered. 0 is good; the log has details.",
        (
            Query(
                "sum by (plugin, step) (rate(headroom_scheduler_plugin_errors_total[$__rate_interval]))",
                "{{plugin}} {{step}}",
            ),
            Query(
                f'sum by (verb) (rate({_REQUESTS}_count{{outcome=~"error|bad_request"}}[$__rate_interval]))',
                "{{verb}}: error",
            ),
        ),
        PER_SECOND,
    )


def _knowledge() -> Iterator[Panel]:
    yield Panel(
        "Silence of the API server",
        "Since it was last heard about each kind of object.",
        (Query("max by (kind) (headroom_scheduler_watch_silence_seconds)", "{{kind}}"),),
        SECONDS,
        width=8,
    )
    yield Panel(
        "Pods on their way",
        "Answered for, and not seen bound yet: they count on their node meanwhile.",
        (Query("max(headroom_scheduler_pods_in_flight)", "Pods"),),
        width=8,
    )
    yield Panel(
        "Events about refused pods",
        "Posted, or suppressed because they repeat an earlier event.",
        (
            Query(
                "sum by (result) (rate(headroom_scheduler_refusal_events_total[$__rate_interval]))",
                "{{result}}",
            ),
        ),
        PER_SECOND,
        width=8,
    )


def _waiting() -> Iterator[Panel]:
    yield Panel(
        "Pods that wait, and groups of them",
        "Pods of one group are checked together.",
        (
            Query("max(headroom_scheduler_waiting_pods)", "Pods"),
            Query("max(headroom_scheduler_waiting_groups)", "Groups"),
            Query("max(headroom_scheduler_waiting_overflow)", "Not remembered"),
        ),
        width=8,
    )
    yield Panel(
        "Time that pods waited",
        "From the first refusal until they are on their way.",
        (
            Query(amounts.quantile(0.5, "headroom_scheduler_waited_seconds"), "median"),
            Query(amounts.quantile(0.9, "headroom_scheduler_waited_seconds"), "90 %"),
        ),
        SECONDS,
        width=8,
    )
    yield Panel(
        "Pods requeued",
        "Pods for which something changed, and the patches that notify kube-scheduler, by result.",
        (
            Query("sum(rate(headroom_scheduler_woken_pods_total[$__rate_interval]))", "requeued"),
            Query(
                "sum by (result) (rate(headroom_scheduler_wake_patches_total[$__rate_interval]))",
                "patch: {{result}}",
            ),
        ),
        PER_SECOND,
        width=8,
    )


def _providers() -> Iterator[Panel]:
    yield Panel(
        "Since a provider last answered",
        "For plugins that take metrics from elsewhere (metricProvider).",
        (
            Query(
                "time() - max by (plugin, provider) (headroom_scheduler_provider_last_answer_timestamp_seconds > 0)",
                "{{plugin}}: {{provider}}",
            ),
        ),
        SECONDS,
    )
    yield Panel(
        "Nodes in its last answer",
        "Matched ones, left out, and names that are no nodes: those need nodePattern or nodeLabel.",
        (
            Query(
                "max by (plugin, provider, state) (headroom_scheduler_provider_nodes)",
                "{{plugin}}: {{provider}}, {{state}}",
            ),
        ),
    )
