"""An early end of a command: a sentence and an exit code."""

from typing import Final

FAILED: Final = 1  # exit code: the requested object is absent or forbidden
USAGE: Final = 2  # exit code: the command line is wrong (argparse uses the same)
UNAVAILABLE: Final = 3  # exit code: there is no login, or the API server cannot be reached
INTERRUPTED: Final = 130  # exit code: Ctrl-C


class CommandError(Exception):
    """The command cannot be carried out; the message has the reason and the way out, in one line.

    Attributes:
        exit_code: `FAILED` or `UNAVAILABLE`.
    """

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code
