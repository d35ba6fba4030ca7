"""Entry point of `kubectl-headroom`: one command, one exit code, no traceback for a user's error."""

import argparse
import errno
import os
import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from headroom.runtime.removed import removed
from headroom.runtime.text import joined
from kubectl_headroom import arguments, output
from kubectl_headroom.errors import FAILED, INTERRUPTED, USAGE, CommandError

_FULL = (errno.ENOSPC, errno.EDQUOT)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments; those of the process by default.

    Returns:
        The exit code, see `kubectl_headroom.errors`.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    _open_streams()
    try:
        options = (word.partition("=")[0] for word in words if word.startswith("-"))
        if sentence := next(filter(None, (removed("command", option) for option in options)), None):
            raise CommandError(sentence, USAGE)  # noqa: TRY301 - as a wrong argument
        try:
            code = _run(arguments.parser().parse_args(joined(_as_flag(words))))
        finally:  # after --help, too
            sys.stdout.flush()
    except CommandError as error:
        output.line(f"kubectl headroom: {error}", sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough.
        _close_stdout()
        return 0
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _close_stdout()
        print(f"kubectl headroom: the answer cannot be written: {error.strerror}.", file=sys.stderr)
        return FAILED
    return code


def _as_flag(words: list[str]) -> list[str]:
    """Return `help top` as `top --help`."""
    return [*words[1:], "--help"] if words[:1] == ["help"] else words


def _open_streams() -> None:
    """Replace a closed stream (`>&-`), for which Python has none, so that prints do not fail."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for as long as it runs


def _close_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complete() -> int:
    """Print what can follow the words on the command line: the entry point `kubectl_complete-headroom`."""
    from kubectl_headroom.completion import complete as candidates  # noqa: PLC0415

    _open_streams()
    print("\n".join(candidates(sys.argv[1:])))
    return 0


def _run(options: argparse.Namespace) -> int:
    # Imported late: `version` and `--help` need no validator and no HTTP client.
    if options.command == "version":
        _print_version(options.output)
        return 0
    if options.command == "config" and options.action == "check":
        from kubectl_headroom.config import check  # noqa: PLC0415

        return check.run(options.file, options.output)
    if options.command == "backtest":
        from kubectl_headroom.backtest import command as backtest  # noqa: PLC0415

        return backtest.run(options)
    if options.command == "explain" and options.filename is not None:
        from kubectl_headroom.explain import from_file  # noqa: PLC0415

        return from_file.run(options)
    from kubectl_headroom import commands  # noqa: PLC0415

    return commands.run(options)


def _print_version(form: str) -> None:
    version = metadata.version("kube-headroom")
    if not output.is_for_people(form):
        output.show({"kind": "Version", "version": version, "python": platform.python_version()}, form)
        return
    print(f"kubectl headroom {version}")
    if form == output.WIDE:
        print(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, in {sys.prefix}")


if __name__ == "__main__":
    sys.exit(main())
