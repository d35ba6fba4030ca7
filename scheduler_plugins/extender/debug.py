"""GET /debug/nodes/{name}: all that is known of a node, as JSON."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

import msgspec
import numpy as np

from headroom.runtime.http import Reply, Request
from scheduler_plugins.snapshot.arrays import Nodes
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.ledger import NodeLedger
from scheduler_plugins.snapshot.units import Vector

PATH: Final = "/debug/nodes/"  # the prefix of a node's page


class NodePage:
    """The pages of all nodes."""

    def __init__(self, cache: ClusterCache, clock: Callable[[], float]) -> None:
        self._cache, self._clock = cache, clock

    def answer(self, request: Request) -> Reply:
        """Return the page of a node; `{}` for an unknown one, as upstream's page does."""
        return _json(self.known(request.path.removeprefix(PATH)))

    def known(self, name: str) -> dict[str, Any]:
        """Return the state of a node, under the names of upstream's page where it has them.

        Amounts are milli-cores for cpu, else base units; times are unix seconds.
        """
        ledger, resources = self._cache.ledger(name), self._cache.rules.resources
        nodes, unknown = self._cache.freeze(self._clock()).select([name])
        if ledger is None and unknown:
            return {}
        page: dict[str, Any] = {"name": name, "known": not unknown, "now": nodes.now}
        if ledger is not None:
            page |= _ledger(ledger, resources)
        page["inFlight"] = {
            charge.pod.key: {
                "since": charge.since,
                "nodes": list(charge.names),
                "estimate": _amounts(charge.pod.estimate, resources),
            }
            for charge in self._cache.in_flight.values()
            if name in charge.names
        }
        page["readings"] = {plugin: _plain(reading) for plugin, reading in self._cache.readings(name).items()}
        if not unknown:
            page |= _rows(nodes, resources)
        return page


def _json(page: Mapping[str, Any]) -> Reply:
    return Reply(msgspec.json.format(msgspec.json.encode(_plain(page))) + b"\n")


def _ledger(ledger: NodeLedger, resources: tuple[str, ...]) -> dict[str, Any]:
    return {
        "pods": {
            assigned.pod.key: {
                "uid": uid,
                "timestamp": assigned.timestamp,
                "estimated": _amounts(assigned.pod.estimate, resources),
                "prod": assigned.pod.prod,
            }
            for uid, assigned in sorted(ledger.pods.items(), key=lambda item: item[1].pod.key)
        },
        "prodUsage": _amounts(ledger.prod_usage, resources),
        "nodeDelta": _amounts(ledger.sums.node_delta, resources),
        "prodDelta": _amounts(ledger.sums.prod_delta, resources),
        "nodeEstimated": _amounts(ledger.sums.estimated, resources),
        "load": _amounts(ledger.load(), resources),
        "prodLoad": _amounts(ledger.prod_load, resources),
        "updateTime": _plain(ledger.update_time),
        "report": _plain(ledger.report),
    }


def _rows(nodes: Nodes, resources: tuple[str, ...]) -> dict[str, Any]:
    """The node's rows in the snapshot: what filters and scores see."""
    return {
        "inFlightEstimate": _amounts(tuple(nodes.in_flight[0].tolist()), resources),
        "inFlightProdEstimate": _amounts(tuple(nodes.in_flight_prod[0].tolist()), resources),
        "records": {
            plugin: {field: _plain(table[field][0]) for field in table} for plugin, table in nodes.tables.items()
        },
        "boundSums": {plugin: nodes.bound(plugin)[0].tolist() for plugin in nodes.accounts},
        "inFlightSums": {plugin: nodes.expected(plugin)[0].tolist() for plugin in nodes.accounts},
    }


def _amounts(vector: Vector, resources: tuple[str, ...]) -> dict[str, int]:
    return dict(zip(resources, vector, strict=True))


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever parts keep
    """Return a value as JSON; a value without a JSON form becomes text."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return {_text(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in (sorted(value, key=str) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int) else _text(str(value))


def _text(value: str) -> str:
    """Text as UTF-8 can have it: half of a surrogate pair, which Python's JSON lets through, is shown by its number."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8")
