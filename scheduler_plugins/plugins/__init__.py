"""Filters and scores. Arrays in, arrays out: no clocks, no HTTP, no Kubernetes API."""

from collections.abc import Mapping
from typing import Final

PLUGINS: Final[Mapping[str, str]] = {
    "LoadAwareScheduling": "scheduler_plugins.plugins.load_aware:LoadAware",
}
"""Every plugin by the name that a profile calls it."""
