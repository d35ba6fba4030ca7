"""Which configuration is in force: a bad one never replaces a good one."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from crds.colocation import ColocationConfig
from manager.config.findings import Finding
from manager.config.parse import parse_config
from manager.config.review import NO_KEY


class Origin(StrEnum):
    """Where the configuration in force comes from."""

    CONFIG_MAP = "the ConfigMap"
    LAST_GOOD = "the last good ConfigMap"
    DEFAULTS = "the defaults"


@dataclass(frozen=True, slots=True)
class InForce:
    """The configuration in force, and what is wrong with the one that somebody wants."""

    config: ColocationConfig = field(default_factory=ColocationConfig)
    """What the manager obeys."""
    text: str = ""
    """The text it was read from; empty for the defaults."""
    origin: Origin = Origin.DEFAULTS
    """Where it comes from."""
    present: bool = False
    """Whether there is a ConfigMap."""
    removed: bool = False
    """Whether there was one before, in this run or, by the text it left, in an earlier one."""
    errors: tuple[Finding, ...] = ()
    """Why the ConfigMap's text is not the one in force."""
    entry_errors: tuple[Finding, ...] = ()
    """Why entries of `nodeConfigs` are disabled."""
    warnings: tuple[Finding, ...] = ()
    """What is ignored, or probably not meant."""


def judge(before: InForce, text: str | None, *, present: bool) -> InForce:
    """What is in force after the ConfigMap changed.

    Args:
        before: what was in force.
        text: the value of key `colocation-config`; absent or empty means the defaults.
        present: whether the ConfigMap exists; without it the defaults apply.
    """
    if not present:
        return InForce(removed=before.present or before.removed or bool(before.text))
    judged = parse_config(text)
    if judged.config is None:
        origin = Origin.LAST_GOOD if before.text else Origin.DEFAULTS
        return replace(
            before, origin=origin, present=True, errors=judged.errors, entry_errors=(), warnings=judged.warnings
        )
    origin = Origin.CONFIG_MAP if text else Origin.DEFAULTS
    warnings = (NO_KEY,) if text is None else judged.warnings
    return InForce(judged.config, text or "", origin, present=True, entry_errors=judged.entry_errors, warnings=warnings)


def at_start(text: str | None, *, present: bool, last_good: str | None) -> InForce:
    """What is in force when the manager starts: the ConfigMap, else the last good text that an earlier run kept."""
    before = InForce()
    if last_good:
        kept = parse_config(last_good)
        if kept.config is not None:
            before = InForce(kept.config, last_good, Origin.LAST_GOOD)
    return judge(before, text, present=present)
