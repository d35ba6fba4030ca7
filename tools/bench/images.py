"""`python -m tools.bench.images`: how large the images are, and how soon their programs start in them.

They run as the chart has it, on a read-only root and without rights; whoever measures has to be root on Linux.
"""

import gzip
import tempfile
import time
from pathlib import Path

from tools.devcluster import images
from tools.devcluster.binaries import REAL_NODE, Binaries
from tools.devcluster.oci import Layout
from tools.devcluster.one_container import execute, unpack

RUNS = 3
PROGRAMS = {
    "headroom-agent": (("python3", "-c", "pass"), ("headroom-agent", "--help")),
    "headroom-manager": (
        ("python3", "-c", "pass"),
        ("headroom-manager", "--help"),
        ("headroom-scheduler", "--check"),
        ("kubectl-headroom", "version"),
    ),
}
"""What is started: Python alone, and each program until it has read its flags; the extender until it has plugins."""


def main() -> None:
    """Build what is missing, measure, print."""
    built = {
        one.name.rpartition("/")[2].partition(":")[0]: one
        for one in images.build_all(Binaries.find_or_build(REAL_NODE))
    }
    for name, programs in PROGRAMS.items():
        image = built[name]
        layers = [image.blob(digest) for digest in image.blobs()[2:]]
        unpacked = sum(layer.stat().st_size for layer in layers)
        packed = sum(len(gzip.compress(layer.read_bytes(), 6)) for layer in layers)
        print(f"{name}: {unpacked / 1e6:.0f} MB, compressed {packed / 1e6:.0f} MB, {len(layers)} layers")
        with tempfile.TemporaryDirectory(prefix="headroom-bench-") as bundle:
            (Path(bundle) / "root").mkdir()
            unpack(image, Path(bundle) / "root")
            for words in programs:
                print(f"  {' '.join(words)}: {_seconds(image, Path(bundle), *words):.2f} s")


def _seconds(image: Layout, bundle: Path, *words: str) -> float:
    """The shortest of some runs, the container's own start included. [s]"""
    taken = []
    for _ in range(RUNS):
        started = time.perf_counter()
        done = execute(image, bundle, *words)
        taken.append(time.perf_counter() - started)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: {done.stderr}")
    return min(taken)


if __name__ == "__main__":
    main()
