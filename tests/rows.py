"""Rows of tests that run beside each other, in order each: a real node; the manager and the CLI; the scheduler; others.

Clusters are shared by many tests, so a row must not be split. pytest-xdist's groups would do that, but do nothing under
pytest 9.2; its scopes do.
"""

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]


class Rows(LoadScopeScheduling):
    """Hands out whole rows."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        if _needs_node(path):
            return "node"
        if path.startswith("tests/scheduler_plugins/"):
            return "scheduler"
        return "manager" if path.startswith(("tests/manager/", "tests/headroom/")) else "control plane"


@cache
def _needs_node(path: str) -> bool:
    return "mark.node" in (ROOT / path).read_text(encoding="utf-8")
