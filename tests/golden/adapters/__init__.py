"""Adapters: the JSON of a vector -> our types -> our function -> JSON. They hold no arithmetic."""

from collections.abc import Callable, Mapping
from typing import Any, Final

Adapter = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns the `input` of a vector into the result of our function."""

FAMILIES: Final[Mapping[str, str]] = {
    "capacity_preemption": "tests.golden.adapters.capacity_preemption:OPERATIONS",
    "cgroup_parse": "tests.golden.adapters.cgroup_parse:OPERATIONS",
    "colocation_config": "tests.golden.adapters.colocation_config:OPERATIONS",
    "elasticquota": "tests.golden.adapters.elasticquota:OPERATIONS",
    "histogram": "tests.golden.adapters.histogram:OPERATIONS",
    "load_watcher": "tests.golden.adapters.load_watcher:OPERATIONS",
    "loadaware_args": "tests.golden.adapters.load_aware:ARGUMENTS",
    "loadaware_cache": "tests.golden.adapters.load_aware_cache:CACHE",
    "loadaware_estimator": "tests.golden.adapters.load_aware:ESTIMATOR",
    "loadaware_filter": "tests.golden.adapters.load_aware:FILTER",
    "loadaware_score": "tests.golden.adapters.load_aware:SCORE",
    "low_risk_overcommitment": "tests.golden.adapters.low_risk_overcommitment:OPERATIONS",
    "mid_resource": "tests.golden.adapters.mid_resource:OPERATIONS",
    "nodemetric_policy": "tests.golden.adapters.nodemetric_policy:OPERATIONS",
    "nodemetric_report": "tests.golden.adapters.nodemetric_report:OPERATIONS",
    "noderesources_allocatable": "tests.golden.adapters.noderesources_allocatable:OPERATIONS",
    "peak_predictor": "tests.golden.adapters.peak_predictor:OPERATIONS",
    "trimaran_args": "tests.golden.adapters.trimaran_args:OPERATIONS",
}
"""Vector file without its ending -> where its operations are: a mapping from `op` to its adapter; empty: none yet."""
