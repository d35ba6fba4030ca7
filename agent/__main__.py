"""The agent's entry point: settings, logging, and one line for whatever keeps it from starting."""

import asyncio
import json
import logging
import sys
import time
from collections.abc import Sequence

from agent import settings as agent_settings
from agent.runner import CannotStart, run
from agent.settings import AgentSettings, WrongSetting
from agent.store.schema import StoreError

WRONG_USE, CANNOT_RUN = 2, 1


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def set_up_logging(settings: AgentSettings) -> None:
    """Log to standard error, in the form that was asked for."""
    handler = logging.StreamHandler()
    if settings.log_format == "json":
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent.

    Returns:
        0 after a clean stop, 1 when it cannot run here, 2 when it was called wrongly.
    """
    try:
        settings = agent_settings.load(arguments)
    except WrongSetting as error:
        print(f"headroom-agent: {error}", file=sys.stderr)
        return WRONG_USE
    set_up_logging(settings)
    try:
        if settings.inspect_store:
            from agent.store.inspection import report  # noqa: PLC0415 - sqlite_utils costs memory that a service lacks

            print(report(settings.database))
        else:
            asyncio.run(run(settings))
    except (CannotStart, StoreError, OSError) as error:
        print(f"headroom-agent: {error}", file=sys.stderr)
        return CANNOT_RUN
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
