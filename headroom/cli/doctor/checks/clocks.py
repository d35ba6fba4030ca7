"""The nodes' clocks: each report bears the node's time, and the API server notes its own when it takes it."""

from collections.abc import AsyncIterator
from typing import Final

from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding, count, error, info, named, ok, warning
from headroom.cli.doctor.installed import degrade_seconds
from headroom.cli.doctor.node_metric import report
from headroom.cli.doctor.rights import NODE_METRICS

_TOLERATED_SECONDS: Final = 30.0
_FIX: Final = "sudo timedatectl set-ntp true  # on the node"
_PAGE: Final = "troubleshooting.md"


async def check(site: Site) -> AsyncIterator[Finding]:
    """Nodes whose clocks are wrong."""
    reports = [each for each in await site.every(NODE_METRICS, report) if each.updated is not None]
    known = sorted((each.node, each.ahead) for each in reports if each.ahead is not None)
    limit = await degrade_seconds(site)
    behind = [(node, -ahead) for node, ahead in known if -ahead > _TOLERATED_SECONDS]
    gone = [(node, by) for node, by in behind if by > limit]
    if gone:
        yield error(
            f"The clocks of {count(len(gone), 'node')} are so far behind that reports count as too old and nothing is "
            f"published there: {named(_told(gone))}.",
            _FIX,
            _PAGE,
            [node for node, _ in gone],
        )
    slow = [each for each in behind if each not in gone]
    fast = [(node, ahead) for node, ahead in known if ahead > _TOLERATED_SECONDS]
    for those, where in ((slow, "behind"), (fast, "ahead")):
        if those:
            yield warning(
                f"The clocks of {count(len(those), 'node')} are {where}, so their reports seem "
                f"{'older' if where == 'behind' else 'newer'} than they are: {named(_told(those))}.",
                _FIX,
                _PAGE,
                [node for node, _ in those],
            )
    if not known:
        yield info("No node has reported yet, so nothing is known of their clocks.")
    elif not behind and not fast:
        yield ok(f"The clocks of {count(len(known), 'node')} agree with the API server's within 30 s.")


def _told(nodes: list[tuple[str, float]]) -> list[str]:
    return [f"{node} ({seconds:.0f} s)" for node, seconds in nodes]
