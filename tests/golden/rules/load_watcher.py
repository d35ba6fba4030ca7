"""Rules for `load_watcher.json`."""

from typing import Any, Final

from tests.golden.rules.rule import Deviation, Input, OutOfScope, Rule


def _errs(_input: Input, expected: Any) -> Any:  # noqa: ANN401
    return {**expected, "error": True} if expected.get("error") else expected


def _one_kept(_input: Input, expected: Any) -> Any:  # noqa: ANN401
    return {**expected, "cacheSize": min(1, expected.get("cacheSize", 0))}


def _highest(_input: Input, expected: Any) -> Any:  # noqa: ANN401
    """Of several values of one operator for a host the highest is kept."""
    hosts = {}
    for host, metrics in expected.get("metrics", {}).items():
        best: dict[tuple[Any, Any], Any] = {}
        for metric in metrics:
            key = metric.get("type"), metric.get("operator")
            if key not in best or metric["value"] > best[key]["value"]:
                best[key] = metric
        hosts[host] = list(best.values())
    return {**expected, "metrics": hosts}


RULES: Final[tuple[Rule, ...]] = (
    OutOfScope("load_watcher", ("datadog_response", "datadog_request"), "the Datadog provider is left out"),
    OutOfScope(
        "load_watcher",
        ("prometheus_query", "prometheus_result"),
        "metrics that no plugin reads are not asked for",
        when=lambda vector: (
            vector.get("metric") not in ("instance:node_cpu:ratio", "instance:node_memory_utilisation:ratio")
        ),
    ),
    Deviation("load_watcher", ("latest_window",), "the text of the error is not part of the protocol", ours=_errs),
    Deviation("load_watcher", ("fetch_cycle",), "only the last good answer is kept, with its age", ours=_one_kept),
    Deviation(
        "load_watcher",
        ("prometheus_result", "signalfx_all_hosts"),
        "of several series that name the same node the highest counts",
        ours=_highest,
    ),
)
"""Its rules, those about scope first."""
