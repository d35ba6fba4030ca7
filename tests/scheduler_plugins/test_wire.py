"""The JSON that kube-scheduler sends and reads."""

import json

import numpy as np
import pytest

from scheduler_plugins.extender.wire import (
    Arguments,
    BadRequest,
    FilterResult,
    filter_reply,
    parse,
    prioritize_reply,
)
from tests.scheduler_plugins.objects import node, pod


def _body(**keys: object) -> bytes:
    return json.dumps({"Pod": pod(), "Nodes": None, "NodeNames": ["a", "b"], **keys}).encode()


def test_names_are_read() -> None:
    """With nodeCacheCapable only names come."""
    asked = parse(_body())
    assert (asked.pod["metadata"]["name"], list(asked.names), asked.nodes) == ("p", ["a", "b"], None)


def test_full_nodes_are_read() -> None:
    """Without nodeCacheCapable whole nodes come, and go back."""
    asked = parse(_body(NodeNames=None, Nodes={"items": [node("a"), node("b")]}))
    assert list(asked.names) == ["a", "b"]
    reply = filter_reply(FilterResult(["b"]), asked)
    assert reply["Nodes"]["items"] == [node("b")]
    assert reply["NodeNames"] is None


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"[]", "is not an object"),
        (_body(Pod=None), "Pod: is missing"),
        (_body(Pod={"metadata": {}}), "Pod: is missing, or has no metadata and spec"),
        (_body(NodeNames=None), "both are missing"),
        (_body(NodeNames="a"), "NodeNames: is not a list"),
        (_body(NodeNames=["a", 1]), "NodeNames: is not a list"),
        (_body(NodeNames=None, Nodes={"items": [{}]}), "Nodes: is not a list of nodes"),
        (_body(NodeNames=None, Nodes={"items": 5}), "Nodes: is not a list of nodes"),
    ],
)
def test_bad_body_is_named(body: bytes, says: str) -> None:
    """A body that is no request is refused with the key that is wrong."""
    with pytest.raises(BadRequest, match=says):
        parse(body)


def test_reply_has_go_names() -> None:
    """All keys are there, under the names of the Go structs."""
    asked = Arguments(pod(), ["a", "b", "c"], None)
    reply = filter_reply(FilterResult(["a"], {"b": "x"}, {"c": "y"}), asked)
    assert reply == {
        "Nodes": None,
        "NodeNames": ["a"],
        "FailedNodes": {"b": "x"},
        "FailedAndUnresolvableNodes": {"c": "y"},
        "Error": "",
    }


@pytest.mark.parametrize(
    "result", [FilterResult(["z"]), FilterResult((), {"z": ""}), FilterResult((), None, {"z": ""})]
)
def test_strangers_are_not_named(result: FilterResult) -> None:
    """An answer never names a node that was not sent."""
    with pytest.raises(ValueError, match="not sent: z"):
        filter_reply(result, Arguments(pod(), ["a"], None))


def test_scores_are_listed() -> None:
    """Scores go out as a list of Host and integer Score."""
    reply = prioritize_reply(["a", "b"], np.array([0, 100]))
    assert json.dumps(reply) == '[{"Host": "a", "Score": 0}, {"Host": "b", "Score": 100}]'
    assert prioritize_reply([], np.zeros(0, np.int64)) == []


@pytest.mark.parametrize("score", [-1, 101])
def test_scores_stay_in_range(score: int) -> None:
    """A score out of range is not sent: kube-scheduler would believe it."""
    with pytest.raises(ValueError, match=r"outside of 0\.\.100"):
        prioritize_reply(["a"], np.array([score]))
