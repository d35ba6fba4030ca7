"""Entry point of `kubectl-headroom`: one command, one exit code, never a traceback for what the user can mend."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from importlib import metadata

from cli import arguments
from cli.errors import FAILED, INTERRUPTED, CommandError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments; those of the process by default.

    Returns:
        The exit code, see `cli.errors`.
    """
    options = arguments.parser().parse_args(argv)
    code = 0
    try:
        if options.command == "version":
            _print_version(options.output)
        else:
            code = _run(options)
        sys.stdout.flush()
    except CommandError as error:
        print(f"kubectl headroom: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough; nothing may be written when Python closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code


def _run(options: argparse.Namespace) -> int:
    # Imported late: `version` and `--help` pay neither for the validator nor for the HTTP client.
    if options.command == "config" and options.action == "check":
        from cli.config import check  # noqa: PLC0415

        return check.run(options.file, options.output)
    from cli import commands  # noqa: PLC0415

    return commands.run(options)


def _print_version(output: str) -> None:
    version = metadata.version("headroom")
    print(json.dumps({"version": version}) if output == "json" else f"kubectl headroom {version}")


if __name__ == "__main__":
    sys.exit(main())
