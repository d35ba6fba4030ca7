"""Which test follows which page: each page with commands that are run has exactly one."""

from typing import Final

from tests.docs.pages import PAGES, text_of
from tests.pages import PageError, blocks

QUICK_START: Final = "docs/quick-start.md"
ELSEWHERE: Final = {
    "docs/capacity-tutorial.md": "tests/scheduler_plugins/test_capacity_tutorial.py",
    "docs/agent.md": "tests/docs/test_pages_on_machine.py",
    "docs/store.md": "tests/docs/test_pages_on_machine.py",
    "docs/capture.md": "tests/docs/test_pages_on_machine.py",
    "docs/contributing.md": "tests/docs/test_pages_on_machine.py",
    "docs/backtest.md": "tests/kubectl_headroom/backtest/test_page.py",
}
"""Page -> the test that follows it, where that is not `tests/docs/test_pages_on_node.py`."""


def runnable() -> tuple[str, ...]:
    return tuple(page for page in PAGES if _is_run(page))


def _is_run(page: str) -> bool:
    try:
        return any(True for _ in blocks(text_of(page)))
    except PageError:  # tests/docs/test_runner.py reports it
        return False


ON_CONTROL_PLANE: Final = {"docs/scheduler-examples.md": 0, "docs/hot-nodes.md": 3}
"""Pages that are followed on a cluster of their own, with so many kwok nodes."""
ON_NODE: Final = tuple(page for page in runnable() if page not in {*ELSEWHERE, *ON_CONTROL_PLANE, QUICK_START})
"""Pages that are followed on a cluster with a real node and Headroom, in this order."""
ON_MACHINE: Final = tuple(page for page in runnable() if ELSEWHERE.get(page, "").endswith("test_pages_on_machine.py"))
"""Pages that are followed on this machine, without a cluster."""
FOLDERS: Final = ("charts", "docs", "tools")
"""The files in the folder where a reader pastes the commands: those of a clone."""
