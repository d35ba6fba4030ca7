"""ElasticQuotas: what each namespace is guaranteed, may use and uses, and how borrowed resources come back."""

from collections.abc import Iterator

from tools.dashboards import amounts
from tools.dashboards.model import NUMBER, PER_SECOND, SECONDS, Dashboard, Kind, Panel, Query, Row, Variable

_CHOSEN = 'quota_namespace=~"$quota_namespace"'
_BY = "max by (quota_namespace, resource)"
_BORROWING = f"{_BY} (headroom_scheduler_quota_used) > {_BY} (headroom_scheduler_quota_min)"
_BORROWERS = f"count(count by (quota_namespace) ({_BORROWING})) or vector(0)"


def dashboard() -> Dashboard:
    """Make it."""
    return Dashboard(
        uid="headroom-quotas",
        title="Headroom / Quotas",
        what="What each namespace is guaranteed, may use and uses, who borrows, and how borrowed resources come back.",
        variables=(
            Variable(
                "quota_namespace",
                "Namespace",
                "label_values(headroom_scheduler_quota_used, quota_namespace)",
                everything=True,
            ),
        ),
        rows=(
            Row("Now", tuple(_now())),
            Row("Quotas", tuple(_quotas())),
            *(Row(amounts.TITLE[resource], tuple(_resource(resource))) for resource in amounts.RESOURCES),
            Row("Giving back what was borrowed", tuple(_reclaim())),
            Row("Accounts", tuple(_accounts())),
        ),
    )


def _level(name: str, *matchers: str) -> str:
    return f"{_BY} (headroom_scheduler_quota_{name}{{{', '.join((_CHOSEN, *matchers))}}})"


def _now() -> Iterator[Panel]:
    for title, what, expression, bad_from in (
        (
            "Quotas in force",
            "One for each namespace that has any.",
            "count(count by (quota_namespace) (headroom_scheduler_quota_used)) or vector(0)",
            None,
        ),
        (
            "Not in force",
            "Quotas whose namespace has an older one; delete them or merge them.",
            "max(headroom_scheduler_quotas_passed_over)",
            1,
        ),
        (
            "Namespaces that borrow",
            "They use more of something than they are guaranteed.",
            _BORROWERS,
            None,
        ),
        (
            "Pods that wait for what is theirs",
            "They have a quota, found no node, and no pod is being evicted for them yet.",
            "max(headroom_scheduler_reclaim_pending_pods)",
            None,
        ),
        (
            "Accounts that are wrong",
            "Namespaces that are charged something else than their pods come to. Anything but 0 is a bug of ours.",
            "max(headroom_scheduler_quota_differences)",
            1,
        ),
        (
            "Replicas that lead",
            "One writes the status of quotas and evicts.",
            "sum(headroom_scheduler_leads)",
            2,
        ),
    ):
        yield Panel(title, what, (Query(expression),), NUMBER, Kind.STAT, 4, 4, bad_from=bad_from)


def _quotas() -> Iterator[Panel]:
    for resource in amounts.RESOURCES:
        of, unit = f'resource="{resource}"', amounts.UNIT[resource]
        yield Panel(
            f"{amounts.TITLE[resource]} of each namespace",
            "Used beyond guaranteed is borrowed, and goes when its owner wants it back.",
            (
                Query(_level("used", of), "used", unit),
                Query(_level("min", of), "guaranteed", unit),
                Query(_level("max", of), "at most", unit),
                Query(f"{_level('max', of)} - {_level('used', of)}", "left", unit),
            ),
            kind=Kind.TABLE,
        )


def _resource(resource: str) -> Iterator[Panel]:
    of, unit = f'resource="{resource}"', amounts.UNIT[resource]
    yield Panel(
        f"{amounts.TITLE[resource]} used",
        "By namespace, pods on their way included.",
        (Query(_level("used", of), "{{quota_namespace}}"),),
        unit,
        width=8,
        stacked=True,
    )
    yield Panel(
        f"{amounts.TITLE[resource]}: the chosen namespaces together",
        "Their use beside what is guaranteed to them.",
        (
            Query(f"sum({_level('used', of)})", "Used"),
            Query(f"sum({_level('min', of)})", "Guaranteed"),
        ),
        unit,
        width=8,
    )
    yield Panel(
        f"{amounts.TITLE[resource]} borrowed",
        "Used beyond what is guaranteed.",
        (Query(f"{_level('used', of)} - {_level('min', of)} > 0", "{{quota_namespace}}"),),
        unit,
        width=8,
        stacked=True,
    )


def _reclaim() -> Iterator[Panel]:
    yield Panel(
        "Decisions for pods that found no node",
        "held: victims are leaving. nobody: no pod to evict. guarded and throttled: a limit of Headroom forbids it.",
        (
            Query(
                "sum by (outcome) (rate(headroom_scheduler_reclaim_decisions_total[$__rate_interval]))",
                "{{outcome}}",
            ),
        ),
        PER_SECOND,
        width=8,
    )
    yield Panel(
        "Evictions",
        "By result. refused-by-budget: a PodDisruptionBudget protects the pod.",
        (
            Query(
                "sum by (result) (rate(headroom_scheduler_reclaim_evictions_total[$__rate_interval]))",
                "{{result}}",
            ),
        ),
        PER_SECOND,
        width=8,
    )
    yield Panel(
        "Pods that wait, and pods for which room is held",
        "By the replica that leads.",
        (
            Query("max(headroom_scheduler_reclaim_pending_pods)", "Wait"),
            Query("max(headroom_scheduler_reclaim_holds)", "Room is held"),
        ),
        width=8,
    )
    yield Panel(
        "From the decision to the pod on its node",
        "How long a guaranteed pod waits for those who borrowed to end: mostly their terminationGracePeriodSeconds.",
        (
            Query(amounts.quantile(0.5, "headroom_scheduler_reclaim_bound_seconds"), "median"),
            Query(amounts.quantile(0.9, "headroom_scheduler_reclaim_bound_seconds"), "90 %"),
        ),
        SECONDS,
    )
    yield Panel(
        "Time of one decision",
        "Of the extender's own work.",
        (Query(amounts.quantile(0.99, "headroom_scheduler_reclaim_decision_seconds"), "99 %"),),
        SECONDS,
    )


def _accounts() -> Iterator[Panel]:
    yield Panel(
        "Namespaces that are charged wrongly",
        "kept: against the pods that the extender knows, every 30 s; listed: against a new list, every hour.",
        (Query("max by (against) (headroom_scheduler_quota_differences)", "{{against}}"),),
        width=8,
        bad_from=1,
    )
    yield Panel(
        "Checks of the accounts",
        "They go on by themselves.",
        (
            Query(
                "sum by (against) (rate(headroom_scheduler_quota_checks_total[$__rate_interval]))",
                "{{against}}",
            ),
        ),
        PER_SECOND,
        width=8,
    )
    yield Panel(
        "Writes of the status of quotas",
        "By result.",
        (
            Query(
                "sum by (result) (rate(headroom_scheduler_quota_status_writes_total[$__rate_interval]))",
                "{{result}}",
            ),
        ),
        PER_SECOND,
        width=8,
    )
