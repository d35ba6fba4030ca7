"""The decoded profile."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from scheduler_plugins.arguments import encode
from scheduler_plugins.extender.service import Answering, Mode
from scheduler_plugins.framework.cycle import Enabled
from scheduler_plugins.framework.plugin import LoadAccounting
from scheduler_plugins.requeue.settings import RequeueSettings
from scheduler_plugins.snapshot.estimate import LoadRules

API_VERSION: Final = "headroom.dev/v1alpha1"  # version of the profile's own format
KIND: Final = "HeadroomSchedulerConfiguration"  # kind of the profile's own format

DEFAULT_PROFILE: Final = Path(__file__).parents[1] / "profile.yaml"  # the profile that is in force when none is given


class ProfileError(ValueError):
    """A profile that cannot be used; the message names each mistake, one per line."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The settings of the extender."""

    enabled: Sequence[Enabled]  # the plugins, in the order in which they filter
    answering: Answering = field(default_factory=Answering)  # mode and sizes of the answers
    in_flight_seconds: float = 30.0  # how long an admitted pod without further events stays charged. [s]
    requeue: RequeueSettings = field(default_factory=RequeueSettings)
    """The requeueing of refused pods, and their Events."""
    notes: tuple[str, ...] = ()  # ignored and defaulted settings, for the log

    @property
    def load_rules(self) -> LoadRules:
        """Return the rules of load: those of the plugin that has them, else the defaults."""
        return next(
            (part.plugin.load_rules() for part in self.enabled if isinstance(part.plugin, LoadAccounting)), LoadRules()
        )


def summary(profile: Profile) -> list[str]:
    """Return the profile for the log: ignored settings, then each plugin with all its arguments."""
    lines = list(profile.notes)
    for part in profile.enabled:
        points = f", only {', '.join(sorted(part.points))}" if part.points is not None else ""
        arguments = json.dumps(encode(part.plugin, secrets=False))
        lines.append(f"Plugin {part.name}, weight {part.weight:g}{points}, {arguments}")
    answering = profile.answering
    sizes = f"the better {answering.shortlist.share:.0%} of the nodes, at least {answering.shortlist.size}"
    lines.append(f"Mode {answering.mode}" + (f", {sizes}" if answering.mode is Mode.SHORTLIST else ""))
    return lines
