"""`python -m tools.release`: builds the archives of the kubectl plugin."""

import argparse
from pathlib import Path

from tools.release import krew


def main() -> None:
    """Build what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("dist/krew"), help="where to (default: dist/krew)")
    platforms, this = sorted(krew.PLATFORMS), "can be repeated (default: this machine's)"
    parser.add_argument("--platform", action="append", choices=platforms, help=this)
    every = "version to bring libraries for; can be repeated (default: all of them)"
    parser.add_argument("--python", action="append", choices=krew.PYTHONS, help=every)
    options = parser.parse_args()
    for line in krew.build(options.out, options.platform or [krew.this_platform()], options.python or krew.PYTHONS):
        print(line, flush=True)


if __name__ == "__main__":
    main()
