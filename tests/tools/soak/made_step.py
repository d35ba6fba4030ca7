"""A step that does what the name of its run says: `python -m tests.tools.soak.made_step --seconds N`."""

import os
import sys
import time

from tools.soak.progress import Telling, run


def trial(telling: Telling) -> None:
    """Do it."""
    what = os.environ["MADE_STEP"]
    telling.say(f"about to {what}")
    print("no line of ours")
    if what == "break off":
        sys.exit("the machine is too small")
    if what == "say nothing":
        return
    telling.check("the first claim", "seen", passed=True)
    telling.check("the second claim", "seen as well", passed=what != "fail")
    if what == "go on for ever":
        time.sleep(600)  # it is ended before


if __name__ == "__main__":
    run(trial)
