"""Run again, alone, what failed beside other clusters: `python -m tests.again`, after the rows of `make test`.

Three clusters share the machine there, and a program that another one starves may miss a wait of two minutes. What
fails alone, too, is a failure. What passes is named, so that somebody looks at it: its first run's output stands above.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FAILED: Final = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
"""Where pytest writes which tests failed."""
MOST: Final = 3
"""More failures than this are none of the machine's."""


def main() -> int:
    """The exit code: 0 when every test that failed passes now."""
    names = sorted(json.loads(FAILED.read_text(encoding="utf-8"))) if FAILED.exists() else []
    if not 0 < len(names) <= MOST:
        print(f"{len(names)} tests failed; up to {MOST} are run again, alone")
        return 1
    print(f"Run again, alone: {', '.join(names)}", flush=True)
    again = subprocess.run([sys.executable, "-m", "pytest", *names], cwd=ROOT, check=False)
    if again.returncode:
        print(f"Failed again, alone: see above ({len(names)} run)")
        return 1
    print(f"PASSED ONLY ALONE, look at their first output above: {', '.join(names)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
