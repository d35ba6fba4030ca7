"""What a profile comes to."""

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
    """What the extender does."""

    enabled: Sequence[Enabled]  # the plugins, in the order in which they filter
    answering: Answering = field(default_factory=Answering)  # mode and sizes of the answers
    in_flight_seconds: float = 30.0  # how long a pod that was answered for and then not heard of stays charged. [s]
    waking: RequeueSettings = field(default_factory=RequeueSettings)
    """How pods that were refused are woken, and told of."""
    notes: tuple[str, ...] = ()  # what was passed over or filled in, and why; for the log

    @property
    def load_rules(self) -> LoadRules:
        """How load is counted: as the plugin says that does, else by default."""
        return next(
            (part.plugin.load_rules() for part in self.enabled if isinstance(part.plugin, LoadAccounting)), LoadRules()
        )


def summary(profile: Profile) -> list[str]:
    """What a profile comes to, for the log: what was passed over, then each plugin with all its arguments."""
    lines = list(profile.notes)
    for part in profile.enabled:
        points = f", only {', '.join(sorted(part.points))}" if part.points is not None else ""
        arguments = json.dumps(encode(part.plugin, secrets=False))
        lines.append(f"Plugin {part.name}, weight {part.weight:g}{points}, {arguments}")
    answering = profile.answering
    sizes = f"the better {answering.shortlist.share:.0%} of the nodes, at least {answering.shortlist.size}"
    lines.append(f"Mode {answering.mode}" + (f", {sizes}" if answering.mode is Mode.SHORTLIST else ""))
    return lines
