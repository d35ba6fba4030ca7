"""Which configuration is in force: a bad one never replaces a good one."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from crds.colocation import ColocationConfig
from manager.config.findings import ConfigFinding
from manager.config.parse import NO_KEY, misspelt_keys, parse_config


class Origin(StrEnum):
    """Where the configuration in force comes from."""

    CONFIG_MAP = "the ConfigMap"
    LAST_GOOD = "the last good ConfigMap"
    DEFAULTS = "the defaults"


@dataclass(frozen=True, slots=True)
class InForce:
    """The configuration in force, and the faults of the ConfigMap's."""

    config: ColocationConfig = field(default_factory=ColocationConfig)
    text: str = ""  # the text it was read from; empty for the defaults
    origin: Origin = Origin.DEFAULTS
    present: bool = False
    removed: bool = False  # whether there was one before, in this run or, by the text it left, in an earlier one
    since: float = field(default=0.0, compare=False)  # since when it is in force [s since 1970]
    errors: tuple[ConfigFinding, ...] = ()  # why the ConfigMap's text is not the one in force
    entry_errors: tuple[ConfigFinding, ...] = ()  # why entries of `nodeConfigs` are disabled
    warnings: tuple[ConfigFinding, ...] = ()  # ignored or suspicious fields


def after_change(
    before: InForce, text: str | None, *, present: bool, now: float = 0.0, keys: Iterable[str] = ()
) -> InForce:
    """Return the configuration in force after a change of the ConfigMap.

    Args:
        before: the one in force until then.
        text: the value of key `colocation-config`; absent or empty means the defaults.
        present: whether the ConfigMap exists; without it the defaults apply.
        now: the time. [s since 1970]
        keys: the keys of the ConfigMap.
    """
    if not present:
        gone = before.present or bool(before.text)
        return InForce(removed=gone or before.removed, since=now if gone or not before.since else before.since)
    parsed, misspelt = parse_config(text), misspelt_keys(keys)
    if parsed.config is None:
        origin = Origin.LAST_GOOD if before.text else Origin.DEFAULTS
        state = replace(before, origin=origin, present=True, errors=parsed.errors, entry_errors=())
        return replace(state, warnings=(*parsed.warnings, *misspelt))
    return InForce(
        parsed.config,
        text or "",
        Origin.CONFIG_MAP if text else Origin.DEFAULTS,
        present=True,
        entry_errors=parsed.entry_errors,
        warnings=(*((NO_KEY,) if text is None else parsed.warnings), *misspelt),
        since=before.since if before.since and before.text == (text or "") else now,
    )


def at_start(
    text: str | None,
    *,
    present: bool,
    last_good: str | None,
    last_good_since: float = 0.0,
    now: float = 0.0,
    keys: Iterable[str] = (),
) -> InForce:
    """Return the configuration in force at the start: the ConfigMap, else the last valid text of an earlier run."""
    before, kept = InForce(since=now), parse_config(last_good).config if last_good else None
    if kept is not None:
        before = InForce(kept, last_good or "", Origin.LAST_GOOD, since=last_good_since or now)
    return after_change(before, text, present=present, now=now, keys=keys)
