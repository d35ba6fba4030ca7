"""Ports of the node that pods take, as kube-scheduler 1.36 judges them."""

from collections.abc import Iterable
from typing import Final, TypeAlias

HostPort: TypeAlias = tuple[str, str, int]
"""Address, protocol, port."""

REASON: Final = "node(s) didn't have free ports for the requested pod ports"
"""As kube-scheduler says it."""
_EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - nothing is bound here


def conflict(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Whether a port is wanted that is in use: on the same address, or if either is on every address."""
    taken: dict[tuple[str, int], set[str]] = {}
    for address, protocol, port in used:
        taken.setdefault((protocol, port), set()).add(address)
    for address, protocol, port in wanted:
        addresses = taken.get((protocol, port), set())
        if addresses and (address == _EVERY_ADDRESS or addresses & {address, _EVERY_ADDRESS}):
            return True
    return False
