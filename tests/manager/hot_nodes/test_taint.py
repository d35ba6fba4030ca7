from typing import cast

import pytest

from crds.names import TAINT_HOT
from headroom.kube import ApiError, ApiServer
from manager.hot_nodes import taint
from tests.support.api import FakeApi
from tests.support.objects import Json, node

NODE = "/api/v1/nodes/n1"
OTHER: Json = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
OLD: Json = {"key": TAINT_HOT, "effect": "NoExecute", "value": "x"}
SOFT: Json = {"key": TAINT_HOT, "effect": "PreferNoSchedule"}


class Server(FakeApi):
    """An API server with one Node, and another writer of its taints."""

    def __init__(self, *taints: Json) -> None:
        super().__init__()
        self.store([*taints])

    def store(self, taints: list[Json]) -> None:
        self.put(NODE, {**node(), "spec": {"podCIDR": "10.0.0.0/24", "taints": taints}})

    def taints(self) -> list[Json]:
        return self.objects[NODE]["spec"].get("taints") or []

    def interfere(self, times: int) -> None:
        """Have another writer add a taint just before the next writes."""

        def add() -> None:
            nonlocal times
            times -= 1
            if times >= 0:
                self.store([*self.taints(), {"key": f"other-{times}", "effect": "NoExecute"}])

        self.before["PATCH /api/v1/nodes/"] = add

    async def write(self, effect: str, uid: str = "uid-n1") -> Json | None:
        return await taint.write(cast("ApiServer", self), "n1", uid, effect)


@pytest.mark.parametrize("before", [[], [SOFT], [OLD], [OLD, SOFT], [OTHER, OLD]])
@pytest.mark.parametrize("effect", ["PreferNoSchedule", "NoSchedule", ""])
async def test_only_the_own_taint_changes(before: list[Json], effect: str) -> None:
    """Afterwards the Node has our taint once with the effect, or not at all, and every other taint as it was."""
    server = Server(*before)
    await server.write(effect)
    assert [entry for entry in server.taints() if entry["key"] == TAINT_HOT] == (
        [{"key": TAINT_HOT, "effect": effect}] if effect else []
    )
    assert [entry for entry in server.taints() if entry["key"] != TAINT_HOT] == [
        entry for entry in before if entry is OTHER
    ]
    assert server.objects[NODE]["spec"]["podCIDR"] == "10.0.0.0/24"


async def test_equal_taints_are_not_written() -> None:
    server = Server(OTHER, SOFT)
    await server.write("PreferNoSchedule")
    assert server.written("PATCH", NODE) == []


async def test_concurrent_writers_lose_nothing() -> None:
    """Taints that others add between the read and the write stay: the write is repeated with the new version."""
    server = Server(OTHER)
    server.interfere(3)
    await server.write("NoSchedule")
    assert {entry["key"] for entry in server.taints()} == {"gpu", "other-0", "other-1", "other-2", TAINT_HOT}
    assert len(server.written("PATCH", NODE)) == 4


async def test_endless_conflict_is_raised() -> None:
    server = Server()
    server.interfere(1000)
    with pytest.raises(ApiError, match="Conflict"):
        await server.write("NoSchedule")


async def test_other_node_of_the_name_is_left_alone() -> None:
    """A Node that was deleted and created again, or is gone, gets nothing."""
    server = Server()
    assert await server.write("NoSchedule", uid="uid-old") is None
    del server.objects[NODE]
    assert await server.write("NoSchedule") is None
    assert server.written("PATCH", NODE) == []
