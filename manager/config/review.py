"""What an edit of the ConfigMap would do, checked in advance: for the admission webhook and `kubectl headroom`."""

from dataclasses import dataclass
from typing import Final

from crds.colocation import ColocationConfig
from crds.names import CONFIG_MAP_KEY
from manager.config.findings import ConfigFinding
from manager.config.parse import parse_config

NO_KEY: Final = ConfigFinding(
    CONFIG_MAP_KEY, "the ConfigMap has no such key: the defaults apply, and colocation is disabled"
)
"""What is odd about a ConfigMap without the key."""


@dataclass(frozen=True, slots=True)
class Review:
    """The findings about a text."""

    config: ColocationConfig | None
    """What it would put in force; `None` when it cannot be used."""
    errors: tuple[ConfigFinding, ...] = ()
    """Why it cannot be used."""
    entry_errors: tuple[ConfigFinding, ...] = ()
    """Why entries of `nodeConfigs` would be disabled."""
    warnings: tuple[ConfigFinding, ...] = ()
    """What is ignored, or probably not meant; entries that compete for the same labels among it."""
    unchanged: bool = False
    """Whether the text is the one that was there before."""

    def refusals(self) -> tuple[ConfigFinding, ...]:
        """What an admission webhook refuses; nothing when the text stays, so that its labels can be edited."""
        return () if self.unchanged else (*self.errors, *self.entry_errors)


def review(text: str | None, before: str | None = None) -> Review:
    """Validate a text that is about to be stored.

    Args:
        text: value of key `colocation-config`; `None` when the ConfigMap has no such key.
        before: the value that it replaces; `None` when there was none.
    """
    parsed = parse_config(text)
    warnings = (NO_KEY,) if text is None else (*parsed.warnings, *parsed.hints)
    unchanged = text is not None and text == before
    return Review(parsed.config, parsed.errors, parsed.entry_errors, warnings, unchanged)
