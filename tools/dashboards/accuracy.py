"""How good the predictions are: how often usage exceeded them, by how much, and what they leave unused."""

from collections.abc import Iterator

from tools.dashboards import amounts
from tools.dashboards.model import NUMBER, RATIO, SECONDS, Dashboard, Kind, Panel, Query, Row, Variable

_PROD = 'class="prod", node=~"$node"'
_HORIZONS = (
    ("24h", "the 24 hours that followed it"),
    ("5m", "the five minutes in which it was in force"),
)
_GOOD = 0.01


def dashboard() -> Dashboard:
    """Make it."""
    return Dashboard(
        uid="headroom-prediction",
        title="Headroom / Prediction accuracy",
        what="How often Prod used more than was predicted, by how much, and how much more could have been published.",
        variables=(Variable("node", "Node", "label_values(headroom_agent_start_time, node)", everything=True),),
        hours=24,
        rows=(
            Row("Now", tuple(_now())),
            *(Row(f"Against {words}", tuple(_exceeded(horizon, words))) for horizon, words in _HORIZONS),
            Row("Usage beside the prediction", tuple(_beside())),
            Row("What the predictions rest on", tuple(_ground())),
        ),
    )


def _judged(horizon: str, resource: str = "") -> str:
    matchers = f'{_PROD}, horizon="{horizon}"' + (f', resource="{resource}"' if resource else "")
    return f"headroom_agent_prediction_judged{{{matchers}}}"


def _share(horizon: str, by: str = "") -> str:
    """Share of all predictions that were exceeded: a node with many counts as many."""
    exceeded = f'headroom_agent_prediction_exceeded_ratio{{{_PROD}, horizon="{horizon}"}} * {_judged(horizon)}'
    return f"sum by ({by}) ({exceeded}) / sum by ({by}) ({_judged(horizon)})"


def _now() -> Iterator[Panel]:
    for horizon, words in _HORIZONS:
        yield Panel(
            f"Exceeded within {horizon}",
            f"Share of the predictions that usage exceeded in {words}, per resource. 1 % is good; 0 for weeks means "
            "that more could be published.",
            (Query(_share(horizon, "resource"), "{{resource}}"),),
            RATIO,
            Kind.STAT,
            6,
            5,
            bad_from=5 * _GOOD,
        )
    yield Panel(
        "Predictions evaluated",
        "In the last 24 hours, over 24 hours each. None in the first day.",
        (Query(f"sum by (resource) ({_judged('24h')})", "{{resource}}"),),
        NUMBER,
        Kind.STAT,
        6,
        5,
    )
    yield Panel(
        "Nodes above their prediction now",
        "Nodes whose Prod pods use more than was predicted at most.",
        (
            Query(
                f"sum by (resource) (headroom_agent_usage{{{_PROD}}} > bool headroom_agent_peak{{{_PROD}}})",
                "{{resource}}",
            ),
        ),
        NUMBER,
        Kind.STAT,
        6,
        5,
        bad_from=1,
    )


def _exceeded(horizon: str, words: str) -> Iterator[Panel]:
    where = f'{_PROD}, horizon="{horizon}"'
    yield Panel(
        f"Share of predictions exceeded within {horizon}",
        f"In {words}: all nodes together, and the worst one.",
        (
            Query(_share(horizon, "resource"), "{{resource}}, all nodes"),
            Query(
                f"max by (resource) (headroom_agent_prediction_exceeded_ratio{{{where}}})", "{{resource}}, worst node"
            ),
        ),
        RATIO,
        width=8,
        bad_from=5 * _GOOD,
    )
    yield Panel(
        f"By how much, within {horizon}",
        "(usage - predicted) / predicted of those that were exceeded: the mean of the worst node, and the largest one. "
        "Many that are exceeded by little do less harm than few by much.",
        (
            Query(f"max by (resource) (headroom_agent_prediction_excess_mean_ratio{{{where}}})", "{{resource}}, mean"),
            Query(
                f"max by (resource) (headroom_agent_prediction_excess_max_ratio{{{where}}})", "{{resource}}, largest"
            ),
        ),
        RATIO,
        width=8,
    )
    yield Panel(
        f"Worst nodes within {horizon}",
        "Remedies: a larger safety margin for these nodes (nodePredictPolicy), or another model.",
        (
            Query(
                f"topk(15, max by (node, resource) (headroom_agent_prediction_exceeded_ratio{{{where}}}))",
                "exceeded",
                RATIO,
            ),
        ),
        kind=Kind.TABLE,
        width=8,
    )


def _beside() -> Iterator[Panel]:
    for resource in amounts.RESOURCES:
        of = f'{_PROD}, resource="{resource}"'
        yield Panel(
            f"{amounts.TITLE[resource]} of Prod: used and predicted",
            "Sum over the chosen nodes. The nearer the lines, the more was published; where they cross, too much was.",
            (
                Query(f"sum(headroom_agent_peak{{{of}}})", "Predicted peak"),
                Query(f"sum(headroom_agent_usage{{{of}}})", "Used"),
            ),
            amounts.UNIT[resource],
            width=8,
        )
    yield Panel(
        "Share of the time above the prediction",
        "Of the last 24 hours, checked every five minutes, over the chosen nodes.",
        (
            Query(
                f"avg by (resource) (avg_over_time((headroom_agent_usage{{{_PROD}}} > bool"
                f" headroom_agent_peak{{{_PROD}}})[1d:5m]))",
                "{{resource}}",
            ),
        ),
        RATIO,
        Kind.STAT,  # over time the same question would be some billion comparisons with thousands of nodes
        8,
        bad_from=5 * _GOOD,
    )
    yield Panel(
        "Share of the prediction that is not used",
        "Between the peak that is expected and what is used now: the price of safety.",
        (
            Query(
                f"1 - sum by (resource) (headroom_agent_usage{{{_PROD}}})"
                f" / (sum by (resource) (headroom_agent_peak{{{_PROD}}}) > 0)",
                "{{resource}}",
            ),
        ),
        RATIO,
        width=24,
        height=6,
    )


def _ground() -> Iterator[Panel]:
    yield Panel(
        "Pods that count at their request",
        "Share of cold pods: nothing of their requests can be reclaimed yet.",
        (
            Query(
                'sum(headroom_agent_pods{state="cold", node=~"$node"}) / (sum(headroom_agent_pods{node=~"$node"}) > 0)',
                "cold",
            ),
        ),
        RATIO,
        width=8,
    )
    yield Panel(
        "Observed time behind the models",
        "The least, median and most of the chosen nodes' pods.",
        (
            Query('min(headroom_agent_model_observed_seconds{kind="pod", stat="min", node=~"$node"})', "least"),
            Query(
                'quantile(0.5, headroom_agent_model_observed_seconds{kind="pod", stat="median", node=~"$node"})',
                "median",
            ),
            Query('max(headroom_agent_model_observed_seconds{kind="pod", stat="max", node=~"$node"})', "most"),
        ),
        SECONDS,
        width=8,
    )
    yield Panel(
        "Models that are in force",
        "Nodes by the model that predicts them, per resource.",
        (
            Query(
                'count by (predictor, resource) (headroom_agent_node_predicted_resource_peak{node=~"$node"})',
                "{{resource}}: {{predictor}}",
            ),
        ),
        width=8,
        stacked=True,
    )
