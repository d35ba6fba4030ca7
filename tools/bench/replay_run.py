"""One node's month, replayed: agent, reports, manager and writes step by step, with what may go wrong in between."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from tools.bench.replay_node import STEP_SECONDS, TICKS, Agent, ReplayedNode
from tools.bench.replay_publisher import Offering, Reporter, Seller, usages_of

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
    node: ReplayedNode, offerings: Sequence[Offering], database: Path, schedule: Schedule | None = None
) -> list[Seller]:
    """Replay one node from its first step to its last.

    One agent learns for all offerings: what it learns depends on none of them.

    Args:
        node: the node.
        offerings: what is to be compared.
        database: where the agent keeps its samples.
        schedule: what goes wrong, and when; nothing without it.

    Returns:
        One seller for each offering, with all that it wrote.
    """
    troubles = (schedule or Schedule()).by_step
    agent, sellers = Agent(node, database), [Seller(offering, node) for offering in offerings]
    reporters = _reporters(node, sellers)
    before: Trouble | None = None
    for step in range(node.steps):
        now, trouble = node.start + step * STEP_SECONDS + TICKS[-1], troubles.get(step)
        if trouble in (Trouble.RESTART, Trouble.SILENT) and trouble is not before:
            agent.stop(now - STEP_SECONDS)
            for reporter, _ in reporters:
                reporter.forget()
        if trouble is not Trouble.SILENT:
            agent.step(step, max(reporter.window_days for reporter, _ in reporters))
        for seller in sellers:
            seller.api_up = trouble is not Trouble.NO_API
            seller.run_until(now)
            if before is Trouble.NO_API and seller.api_up:
                seller.look(now)  # the manager's own retry comes before the agent's report
        if trouble not in (Trouble.SILENT, Trouble.NO_API):
            _report(now, agent, reporters)
        before = trouble
    agent.stop(node.start + node.steps * STEP_SECONDS)
    return sellers


def _reporters(node: ReplayedNode, sellers: Sequence[Seller]) -> list[tuple[Reporter, list[Seller]]]:
    """One reporter for each policy, with those that sell by it."""
    found: list[tuple[Reporter, list[Seller]]] = []
    for seller in sellers:
        policy = seller.offering.policy
        same = [own for reporter, own in found if reporter.policy == policy]
        if same:
            same[0].append(seller)
        else:
            found.append((Reporter(policy, node), [seller]))
    return found


def _report(now: float, agent: Agent, reporters: Sequence[tuple[Reporter, list[Seller]]]) -> None:
    """The agent reports, and the managers see it."""
    usages = usages_of(agent, now)
    for reporter, sellers in reporters:
        report = reporter.report(now, agent, usages)
        for seller in sellers:
            seller.reported(now, report, agent.pods.pods())
