"""The agent's entry point: settings, logging, commands, and one line for whatever keeps it from starting."""

import ast
import asyncio
import logging
import os
import pkgutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from agent import settings as agent_settings
from agent.process import set_mmap_threshold
from agent.runner import run
from agent.settings import AgentSettings
from agent.tsdb.schema import StoreError
from agent.wiring import CannotStart
from headroom.runtime import logs, options
from headroom.runtime.options import WrongSetting

USAGE_ERROR, RUNTIME_ERROR = 2, 1
COMMANDS: Final = {
    "capture": "agent.capture.capture:main",
    "db": "agent.database:main",
    "replay": "agent.capture.replay:main",
}
"""Subcommands. Each gets the arguments after its name and returns the exit code; it may raise
WrongSetting, StoreError and OSError, whose message is logged as one line."""

log = logging.getLogger("agent")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent, or one of its commands.

    Returns 0 after a clean stop, 1 when it cannot run here, 2 when it was called wrongly; a command's own code.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words and not words[0].startswith("-"):
            return _command(words[0], words[1:])
        return _run(words)
    except WrongSetting as error:
        print(f"{agent_settings.PROG}: {error}", file=sys.stderr)
        return USAGE_ERROR
    except (CannotStart, StoreError, OSError) as error:
        print(f"{agent_settings.PROG}: {error}", file=sys.stderr)
        return RUNTIME_ERROR
    except KeyboardInterrupt:
        return 0
    except Exception:
        logging.getLogger("agent").exception("the agent ends because of an unexpected error; please report it")
        return RUNTIME_ERROR


def _command(name: str, arguments: Sequence[str]) -> int:
    if name not in COMMANDS:
        raise WrongSetting(f"there is no command {name!r}; commands: {', '.join(COMMANDS)}; --help lists all flags")
    logs.set_up("text", "warning")
    return int(pkgutil.resolve_name(COMMANDS[name])(arguments))


def _run(arguments: Sequence[str]) -> int:
    set_mmap_threshold()
    settings = agent_settings.load(arguments, commands=_command_help() if {"-h", "--help"} & set(arguments) else "")
    logs.set_up(settings.serve.log_format, settings.serve.log_level)
    for sentence in options.misspelled(AgentSettings, agent_settings.PROG, os.environ):
        log.warning("%s", sentence)
    asyncio.run(run(settings))
    return 0


def _command_help() -> str:
    """The commands and what each is for: the first line of its module, which is not imported for it."""
    lines = []
    for name, target in COMMANDS.items():
        spec = find_spec(target.partition(":")[0])
        if spec is not None and spec.origin is not None:
            docstring = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
            lines.append(f"  {agent_settings.PROG} {name:<8} {docstring.partition(chr(10))[0]}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
