"""`python -m tools.release`: builds the krew archives, and the manifest that installs them."""

import argparse
import sys
from pathlib import Path

from tools.release import krew


def main() -> int:
    """Build what the command line asks for; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.release", description="Build the archives of the kubectl plugin."
    )
    parser.add_argument("--out", type=Path, default=Path("dist/krew"), help="where to (default: dist/krew)")
    parser.add_argument(
        "--platform", action="append", choices=sorted(krew.PLATFORMS), help="can be repeated (default: this machine's)"
    )
    parser.add_argument(
        "--python",
        action="append",
        choices=krew.PYTHONS,
        help="version to bring libraries for; can be repeated (default: all of them)",
    )
    parser.add_argument("--url", default="", help="where the archives will be downloaded from (default: files here)")
    options = parser.parse_args()
    platforms, pythons = options.platform or [krew.this_platform()], options.python or list(krew.PYTHONS)
    for line in krew.build(options.out, platforms, pythons, options.url):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
