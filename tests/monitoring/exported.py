"""Metrics of the three services, by their own registries: the labels of every series by its name."""

from collections.abc import Mapping
from typing import Any, Final

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.process_collector import ProcessCollector

from agent.metrics import Metrics
from tests.architecture import test_manager_page, test_scheduler_metrics
from tests.monitoring.promql import Need, needs

TARGET: Final = frozenset({"job", "instance", "namespace", "pod", "container", "endpoint"})
"""Labels that Prometheus adds to scraped series."""
AGENT: Final = frozenset({"node"})
"""Labels of an agent's metrics besides: from the chart's monitors and the page's configuration."""
OF_PROMETHEUS: Final[dict[str, frozenset[str]]] = {"ALERTS": frozenset({"alertname", "alertstate", "severity"})}
"""Metrics that Prometheus makes itself."""


def exported(monkeypatch: pytest.MonkeyPatch) -> dict[str, frozenset[str]]:
    families: list[tuple[str, str, frozenset[str]]] = [
        (metric._name, metric._type, frozenset(metric._labelnames) | AGENT)
        for metric in _wrappers(Metrics("a").registry)
    ]
    for exported in (test_manager_page._exported(), test_scheduler_metrics._exported(monkeypatch)):
        families += [
            (name.removesuffix("_total") if kind == "counter" else name, kind, frozenset(labels))
            for name, (kind, labels) in exported.items()
        ]
    for family in ProcessCollector(registry=CollectorRegistry()).collect():
        families.append((family.name, family.type, frozenset()))
    series = {name: labels for family in families for name, labels in _series(*family)}
    return {name: labels | TARGET for name, labels in series.items()} | OF_PROMETHEUS


def _wrappers(registry: CollectorRegistry) -> list[Any]:
    return [name for name in registry._collector_to_names if hasattr(name, "_labelnames")]


def _series(name: str, kind: str, labels: frozenset[str]) -> list[tuple[str, frozenset[str]]]:
    if kind == "counter":
        return [(f"{name}_total", labels)]
    if kind == "histogram":
        return [(f"{name}_bucket", labels | {"le"}), (f"{name}_sum", labels), (f"{name}_count", labels)]
    return [(name, labels)]


def missing(expression: str, known: Mapping[str, frozenset[str]]) -> list[str]:
    return [problem for need in needs(expression) if (problem := _problem(need, known))]


def _problem(need: Need, known: Mapping[str, frozenset[str]]) -> str:
    if need.metric not in known:
        return f"no service exports {need.metric}"
    unknown = need.labels - known[need.metric]
    return f"{need.metric} has no label {', '.join(sorted(unknown))}" if unknown else ""
