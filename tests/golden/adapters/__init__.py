"""Adapters: the JSON of a vector -> our types -> our function -> JSON. They hold no arithmetic."""

from collections.abc import Callable, Mapping
from typing import Any, Final

Adapter = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns the `input` of a vector into the result of our function."""

FAMILIES: Final[Mapping[str, str]] = {
    "cgroup_parse": "tests.golden.adapters.cgroup_parse:OPERATIONS",
    "histogram": "tests.golden.adapters.histogram:OPERATIONS",
    "nodemetric_report": "tests.golden.adapters.nodemetric_report:OPERATIONS",
}
"""Vector file without its ending -> where its operations are: a mapping from `op` to its adapter."""
