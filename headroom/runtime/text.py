"""Words of a command line."""

import re
from collections.abc import Sequence
from typing import Final

_FLAG: Final = re.compile(r"--[a-z][a-z0-9-]*")
_NEGATIVE: Final = re.compile(r"-\.?[0-9]")


def joined(words: Sequence[str]) -> list[str]:
    """The words with each negative value put to its flag: `--interval -1s` becomes `--interval=-1s`.

    argparse takes such a value for a flag, and reports a missing value in place of the wrong one.
    """
    merged: list[str] = []
    for word in words:
        if merged and "--" not in merged and _FLAG.fullmatch(merged[-1]) and _NEGATIVE.match(word):
            merged[-1] = f"{merged[-1]}={word}"
        else:
            merged.append(word)
    return merged
