"""Requests by the names as kube-scheduler sends them, while nodes come and go."""

import json
import random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugins.extender.service import Answering, Extender, Mode
from scheduler_plugins.extender.wire import Arguments, BadRequest, FilterResult, parse
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.framework.shortlist import Shortlist
from scheduler_plugins.plugins.load_aware import NAME
from scheduler_plugins.snapshot.names import NamesOfRows, RequestedNames
from tests.scheduler_plugins.objects import NOW, World, node, node_metric, pod

NODES = [f"node-{number}" for number in range(12)]


def _request(names: list[str]) -> Arguments:
    return parse(json.dumps({"Pod": pod(), "Nodes": None, "NodeNames": names}, separators=(",", ":")).encode())


def _change(world: World, lot: random.Random) -> None:
    name = lot.choice(NODES)
    if lot.random() < 0.4:
        world.cache.delete_node(name)
    else:
        world.put(node(name), node_metric(name, cpu=str(lot.choice([10, 40, 90]))))


@settings(deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(Mode))
def test_text_and_names_agree(seed: int, mode: Mode) -> None:
    """Only requested nodes are named, whatever the request has, and the same ones for the names read before."""
    lot, world = random.Random(seed), World()  # noqa: S311 - a repeatable test
    cycle = Cycle([Enabled(NAME, 1.0, world.plugin)])
    for _ in range(6):
        for _ in range(4):
            _change(world, lot)
        requested = [lot.choice([*NODES, "unknown"]) for _ in range(lot.randrange(1, 20))]
        results = []
        for arguments in (_request(requested), Arguments(pod(), list(dict.fromkeys(requested)))):
            answering = Answering(mode, Shortlist(20, 1))
            extender = Extender(world.cache, cycle, answering, lambda: NOW, np.random.default_rng(seed))
            result = extender.filter(arguments)
            scores = extender.prioritize(arguments).tolist() if mode is Mode.WEIGHTED else []
            charge = world.cache.in_flight.get("uid-p")
            results.append((_described(result), sorted(charge.names) if charge else [], len(scores)))
            world.cache.release("uid-p")
        assert results[0] == results[1]
        named, refused = results[0][0][:2]
        assert {*named, *refused} <= set(requested)
        assert named or refused.keys() == set(requested)


def _described(result: FilterResult) -> tuple[list[str], dict[str, str]]:
    return sorted(result.names), {**(result.failed or {}), **(result.unresolvable or {})}


def test_names_are_read_when_needed() -> None:
    arguments = parse(b'{"Pod":{"metadata":{},"spec":{}},"NodeNames":["a",7]}')
    with pytest.raises(BadRequest, match=r"NodeNames\[1\]: Expected `str`, got `int`"):
        len(arguments.names)


def test_wrong_names_change_nothing() -> None:
    world = World().put(node("a"), node_metric("a", cpu="10"))
    cycle = Cycle([Enabled(NAME, 1.0, world.plugin)])
    extender = Extender(world.cache, cycle, Answering(), lambda: NOW, np.random.default_rng(1))
    extender.filter(_request(["a"]))
    for verb in (extender.filter, extender.prioritize):
        with pytest.raises(BadRequest, match="NodeNames: Expected `array"):
            verb(parse(json.dumps({"Pod": pod(), "NodeNames": 7}).encode()))
        assert list(world.cache.in_flight["uid-p"].names) == ["a"]


def test_charge_keeps_no_request() -> None:
    """A pod in flight does not hold the body of its request."""
    world = World().put(node("a"), node("b"))
    extender = Extender(world.cache, Cycle([]), Answering(), lambda: NOW, np.random.default_rng(1))
    for names in (["a", "b"], ["a", "unknown"]):
        extender.filter(_request(names))
        extender.prioritize(_request(names))
        assert not isinstance(world.cache._rows._charged["uid-p"].names, RequestedNames)


def test_names_of_rows() -> None:
    names = NamesOfRows(["a", "b", "c", "d"], np.array([3, 1, 2]))
    assert (list(names), names[0], names[1:], len(names), "a" in names) == (["d", "b", "c"], "d", ["b", "c"], 3, False)
    some = NamesOfRows(names, np.array([2, 0]))
    assert (list(some), some.rows.tolist()) == (["c", "d"], [2, 3])


def test_requested_names_are_each_once() -> None:
    names = _request(["b", "a", "b"]).names
    assert (list(names), names[1], names[:1], len(names)) == (["b", "a"], "a", ["b"], 2)
    assert isinstance(_request([]).names.text, msgspec.Raw)  # type: ignore[attr-defined]
