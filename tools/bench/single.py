"""`python -m tools.bench.single NAME [--quick]`: one part in this process. A line of JSON for each item at once.

The lines go where standard output goes; whatever else is printed meanwhile goes where errors go.
"""

import argparse
import json
import os
import pkgutil
import signal
import sys
from collections.abc import Sequence

from tools.bench.parts import PARTS
from tools.bench.records import plain


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.single", description=__doc__)
    parser.add_argument("name", choices=PARTS)
    parser.add_argument("--quick", action="store_true", help="a few seconds, to see that it runs")
    options = parser.parse_args(arguments)
    sys.stdout.flush()
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as told:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        for item in pkgutil.resolve_name(PARTS[options.name].function)(quick=options.quick):
            print(json.dumps(plain(item)), file=told, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what the part started ends with it
    main()
