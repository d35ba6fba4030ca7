"""Memory of large tables goes back to the kernel."""

import subprocess
import sys

HOLES = """
import numpy as np, psutil
from agent.process import set_mmap_threshold

set_mmap_threshold()
rss = psutil.Process().memory_info
freed = np.ones(3 << 20)  # 24 MiB
del freed  # left alone, glibc now takes anything smaller for what comes and goes, and keeps its room
before, held = rss().rss, []
for mebibytes in range(4, 12):
    table = np.ones(mebibytes << 17)
    held.append(bytearray(4000))  # lives on above the hole
    del table
print((rss().rss - before) >> 20)
"""


def test_freed_tables_leave_no_holes() -> None:
    """Tables that are made and freed between smaller things that stay cost nothing afterwards: not 10 MiB."""
    done = subprocess.run([sys.executable, "-c", HOLES], check=True, capture_output=True, text=True)
    assert int(done.stdout) <= 1
