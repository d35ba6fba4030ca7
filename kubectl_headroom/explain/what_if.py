"""The settings of `--set` and `--config`."""

import json
from collections.abc import Sequence
from typing import Any, Final

from kubectl_headroom.config.file import ConfigFile
from kubectl_headroom.errors import USAGE, CommandError
from manager.api import WHAT_IF_SOURCE as SOURCE
from manager.api import ConfigFinding, TriedConfig, WhatIf, parse_config, parse_strategy

_UNKNOWN: Final = "unknown field"
_NONE: Final = f"{_UNKNOWN}: docs/configuration.md lists the fields"


def what_if(settings: Sequence[str], config: ConfigFile | None) -> WhatIf | None:
    """Return the settings of `--set` and `--config`; None without any.

    Raises:
        CommandError: a setting or the config is refused by the manager's own validator; every fault is named.
    """
    tried = None
    if config is not None:
        _check(config)
        tried = TriedConfig(config.place, config.text)
    if not settings:
        return None if tried is None else WhatIf(config=tried)
    parsed = parse_strategy(json.dumps(_nested(settings)))
    # In a file for several programs an unknown name may belong to another one; here it is an error.
    unknown = [
        ConfigFinding(warning.path, _NONE) for warning in parsed.warnings if warning.message.startswith(_UNKNOWN)
    ]
    faults = [*parsed.errors, *unknown]
    if faults or parsed.strategy is None:
        raise CommandError("; ".join(f"{SOURCE} {fault}" for fault in faults), USAGE)
    return WhatIf(tuple(settings), parsed.strategy, tried, tuple(f"{SOURCE} {warning}" for warning in parsed.warnings))


def _check(config: ConfigFile) -> None:
    parsed = parse_config(config.text)
    if parsed.config is None:
        faults = "; ".join(str(error) for error in (*parsed.errors, *parsed.entry_errors))
        raise CommandError(f"{config.place} would be refused: {faults}", USAGE)


def _nested(settings: Sequence[str]) -> dict[str, Any]:
    """{"midEviction": {"mode": "on"}} of ["midEviction.mode=on"]; of the same path the last one counts."""
    root: dict[str, Any] = {}
    for setting in settings:
        path, given, text = setting.partition("=")
        names = path.strip().split(".")
        if not given or not all(names):
            raise CommandError(
                f"{SOURCE} {setting}: must be a setting and its value, such as midUnallocatedPercent=20", USAGE
            )
        here = root
        for name in names[:-1]:
            below = here.setdefault(name, {})
            if not isinstance(below, dict):
                raise CommandError(f"{SOURCE} {setting}: {name} is given as a whole already: remove one", USAGE)
            here = below
        value = _value(text)
        if value is None:
            raise CommandError(f"{SOURCE} {setting}: null sets nothing: leave it out, or give a value", USAGE)
        here[names[-1]] = value
    return root


def _value(text: str) -> Any:  # noqa: ANN401 - JSON
    """A value written as JSON, or a plain text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
