"""What quotas cost the extender: admission per pod, and the choice of victims. In processes that do nothing else."""

import json
import subprocess
import sys
from collections.abc import Iterator

from tools.bench.machine import ROOT
from tools.bench.measurement import Item
from tools.bench.results import item

NODES: tuple[int, ...] = (1000, 5000)
QUICK_NODES: tuple[int, ...] = (20,)
CALLS, QUICK_CALLS = 200, 3


def measure(*, quick: bool = False) -> Iterator[Item]:
    """Admission with the most nodes, then the choice of victims with each number of them."""
    sizes, calls = (QUICK_NODES, QUICK_CALLS) if quick else (NODES, CALLS)
    yield from _run("tools.bench.quota_admission", sizes[-1], calls)
    for nodes in sizes:
        yield from _run("tools.bench.quota_selection", nodes, calls)


def _run(module: str, *numbers: int) -> Iterator[Item]:
    words = [sys.executable, "-m", module, *map(str, numbers)]
    done = subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    for line in done.stdout.splitlines():
        yield item(json.loads(line))
