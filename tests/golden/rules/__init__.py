"""What is out of scope, and where we answer differently on purpose: rules over a vector's input, never over its name.

Each rule has a reason. A deviation also says what we answer instead; the runner asserts exactly that. One module of
rules for a vector file.
"""

import pkgutil
from collections.abc import Mapping
from typing import Final

from tests.golden.rules.rule import Deviation, OutOfScope, Rule

RULES: Final[Mapping[str, str]] = {
    "capacity_preemption": "tests.golden.rules.capacity_preemption:RULES",
    "cgroup_parse": "tests.golden.rules.cgroup_parse:RULES",
    "colocation_config": "tests.golden.rules.colocation_config:RULES",
    "elasticquota": "tests.golden.rules.elasticquota:RULES",
    "histogram": "tests.golden.rules.histogram:RULES",
    "load_watcher": "tests.golden.rules.load_watcher:RULES",
    "loadaware_args": "tests.golden.rules.loadaware_args:RULES",
    "loadaware_cache": "tests.golden.rules.loadaware_cache:RULES",
    "loadaware_estimator": "tests.golden.rules.loadaware_estimator:RULES",
    "loadaware_filter": "tests.golden.rules.loadaware_filter:RULES",
    "loadaware_score": "tests.golden.rules.loadaware_score:RULES",
    "low_risk_overcommitment": "tests.golden.rules.low_risk_overcommitment:RULES",
    "mid_resource": "tests.golden.rules.mid_resource:RULES",
    "nodemetric_policy": "tests.golden.rules.nodemetric_policy:RULES",
    "nodemetric_report": "tests.golden.rules.nodemetric_report:RULES",
    "noderesources_allocatable": "tests.golden.rules.noderesources_allocatable:RULES",
    "peak_predictor": "tests.golden.rules.peak_predictor:RULES",
    "trimaran_args": "tests.golden.rules.trimaran_args:RULES",
}
"""Vector file without its ending -> where its rules are."""


def rules_of(family: str) -> tuple[Rule, ...]:
    """The rules for the vectors of a file; none when it has no module."""
    place = RULES.get(family)
    found: tuple[Rule, ...] = pkgutil.resolve_name(place) if place else ()
    return found


_ALL: Final[tuple[Rule, ...]] = tuple(rule for family in RULES for rule in rules_of(family))

OUT_OF_SCOPE: Final[tuple[OutOfScope, ...]] = tuple(rule for rule in _ALL if isinstance(rule, OutOfScope))
"""What is counted apart."""

DEVIATIONS: Final[tuple[Deviation, ...]] = tuple(rule for rule in _ALL if isinstance(rule, Deviation))
"""Where we differ on purpose."""
