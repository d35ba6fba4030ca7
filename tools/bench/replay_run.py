"""One node's month, replayed: agent, reports, manager and writes step by step, with what may go wrong in between."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from tools.bench.replay_node import STEP_SECONDS, TICKS, Agent, ReplayedNode
from tools.bench.replay_publisher import Publisher, Reporter, Variant, usages_of

STEPS_PER_DAY: Final = 288
STEPS_PER_HOUR: Final = 12


class Trouble(Enum):
    """What goes wrong in a step."""

    RESTART = "the agent is started anew"
    SILENT = "the agent is away"
    NO_API = "the API server is away"


@dataclass(frozen=True, slots=True)
class Schedule:
    """When something goes wrong."""

    by_step: Mapping[int, Trouble] = field(default_factory=dict)  # by step; nothing happens in those that are absent

    @classmethod
    def of_days(cls, days: float) -> "Schedule":
        """A hard month: a restart a day; and by turns, every second day, two hours without the agent or the server."""
        found: dict[int, Trouble] = {}
        for day in range(1, int(days)):
            begin = day * STEPS_PER_DAY
            found[begin + 10 * STEPS_PER_HOUR] = Trouble.RESTART
            if day % 2 == 0:
                away = Trouble.SILENT if day % 4 == 0 else Trouble.NO_API
                found |= dict.fromkeys(range(begin + 14 * STEPS_PER_HOUR, begin + 16 * STEPS_PER_HOUR), away)
        return cls(found)


def replay(
    node: ReplayedNode, variants: Sequence[Variant], database: Path, schedule: Schedule | None = None
) -> list[Publisher]:
    """Replay one node from its first step to its last.

    One agent learns for all variants: what it learns depends on none of them.

    Args:
        node: the node.
        variants: what is to be compared.
        database: where the agent keeps its samples.
        schedule: what goes wrong, and when; nothing without it.

    Returns:
        One publisher for each variant, with all that it wrote.
    """
    troubles = (schedule or Schedule()).by_step
    agent, publishers = Agent(node, database), [Publisher(variant, node) for variant in variants]
    reporters = _reporters(node, publishers)
    before: Trouble | None = None
    for step in range(node.steps):
        now, trouble = node.start + step * STEP_SECONDS + TICKS[-1], troubles.get(step)
        if trouble in (Trouble.RESTART, Trouble.SILENT) and trouble is not before:
            agent.stop(now - STEP_SECONDS)
            for reporter, _ in reporters:
                reporter.forget()
        if trouble is not Trouble.SILENT:
            agent.step(step, max(reporter.window_days for reporter, _ in reporters))
        for publisher in publishers:
            publisher.api_up = trouble is not Trouble.NO_API
            publisher.run_until(now)
            if before is Trouble.NO_API and publisher.api_up:
                publisher.look(now)  # the manager's own retry comes before the agent's report
        if trouble not in (Trouble.SILENT, Trouble.NO_API):
            _report(now, agent, reporters)
        before = trouble
    agent.stop(node.start + node.steps * STEP_SECONDS)
    return publishers


def _reporters(node: ReplayedNode, publishers: Sequence[Publisher]) -> list[tuple[Reporter, list[Publisher]]]:
    """One reporter for each policy, with those that publish by it."""
    found: list[tuple[Reporter, list[Publisher]]] = []
    for publisher in publishers:
        policy = publisher.variant.policy
        same = [own for reporter, own in found if reporter.policy == policy]
        if same:
            same[0].append(publisher)
        else:
            found.append((Reporter(policy, node), [publisher]))
    return found


def _report(now: float, agent: Agent, reporters: Sequence[tuple[Reporter, list[Publisher]]]) -> None:
    """The agent reports, and the managers see it."""
    usages = usages_of(agent, now)
    for reporter, publishers in reporters:
        report = reporter.report(now, agent, usages)
        for publisher in publishers:
            publisher.reported(now, report, agent.pods.pods())
