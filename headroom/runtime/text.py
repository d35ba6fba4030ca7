"""Words of a command line."""

import re
from collections.abc import Sequence
from typing import Final

_FLAG: Final = re.compile(r"--[a-z][a-z0-9-]*")
_NEGATIVE: Final = re.compile(r"-\.?[0-9]")


def joined(words: Sequence[str]) -> list[str]:
    """The words with each negative value put to its flag: `--interval -1s` becomes `--interval=-1s`.

    argparse takes such a value for a flag, and says that one is missing in place of what is wrong with it.
    """
    found: list[str] = []
    for word in words:
        if found and "--" not in found and _FLAG.fullmatch(found[-1]) and _NEGATIVE.match(word):
            found[-1] = f"{found[-1]}={word}"
        else:
            found.append(word)
    return found
