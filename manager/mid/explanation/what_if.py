"""Other settings for one node, or another colocation config, to try. Nothing is written."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from crds.colocation import ColocationStrategy

SOURCE: Final = "--set"  # how the source of such a setting is called


class TriedConfig(NamedTuple):
    """A colocation config in place of the ConfigMap: how messages call it, and its JSON; None means the defaults."""

    place: str
    text: str | None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Other settings, another config, or both."""

    settings: tuple[str, ...] = ()  # as they were typed: "midUnallocatedPercent=20"
    strategy: ColocationStrategy | None = None  # the settings, as a layer over all others
    config: TriedConfig | None = None  # in place of the ConfigMap
    warnings: tuple[str, ...] = ()  # about suspicious settings

    @property
    def words(self) -> str:
        parts = [f"--config {self.config.place}"] if self.config else []
        return " ".join([*parts, *(f"{SOURCE} {setting}" for setting in self.settings)])
