"""The JSON between kube-scheduler and the extender."""

import json

import numpy as np
import pytest

from scheduler_plugins.extender.wire import (
    BadRequest,
    FilterResult,
    FullNodes,
    Preemption,
    error_reply,
    filter_reply,
    parse,
    parse_preemption,
    preempt_reply,
    prioritize_reply,
)
from scheduler_plugins.framework.plugin import Victims
from tests.scheduler_plugins.objects import node, pod


def _body(**keys: object) -> bytes:
    return json.dumps({"Pod": pod(), "Nodes": None, "NodeNames": ["a", "b"], **keys}).encode()


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (_body(), ["a", "b"]),
        (_body(NodeNames=["a", "b", "a"]), ["a", "b"]),  # a repeated name is evaluated once
        (_body(NodeNames=[], Nodes={"items": [node("a"), node("b")]}), []),  # names count beside Nodes
        (_body(NodeNames=["b"], Nodes={"items": [node("a"), node("b")]}), ["b"]),
        (json.dumps({"Pod": pod(), "NodeNames": ["a"], "Future": 1}).encode(), ["a"]),  # an absent key is one of null
        (json.dumps({"Pod": pod(), "nodes": None, "nodenames": ["a"]}).encode(), ["a"]),  # Go reads keys in any case
        (json.dumps({"pod": pod(), "nodes": None, "nodenames": ["a"]}).encode(), ["a"]),
    ],
)
def test_names_are_read(body: bytes, names: list[str]) -> None:
    arguments = parse(body)
    assert (arguments.pod["metadata"]["name"], list(arguments.names)) == ("p", names)


@pytest.mark.parametrize(
    "body",
    [
        _body(NodeNames=None, Nodes={"metadata": {}, "items": [node("a")]}),
        _body(NodeNames=None, Nodes={"items": None}),
        json.dumps({"pod": pod(), "nodes": {"metadata": {}, "items": [node("a")]}}).encode(),
    ],
)
def test_full_nodes_are_refused(body: bytes) -> None:
    """Full Node objects are rejected with the setting that sends names."""
    with pytest.raises(FullNodes, match="nodeCacheCapable: false was removed: set nodeCacheCapable: true"):
        parse(body)


def test_keys_may_be_in_any_case() -> None:
    victims = json.dumps({"pod": pod(), "nodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u"}]}}}).encode()
    assert parse_preemption(victims).victims == {"a": Victims(("u",), 0)}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"{}", "Pod: is missing"),
        (b'{"pod":7}', "Pod: Expected `object | null`, got `int`"),
        (b"\xff", "is not JSON"),
        (b'{"Pod":' + b"[" * 100_000, "is nested too deeply"),
        (b'{"Pod":{"a":' + b"[" * 100_000, "is nested too deeply"),
        (b"[]", "is not an object"),
        (_body(Pod=None), "Pod: is missing"),
        (_body(Pod={"metadata": {}}), "Pod: is missing its metadata or its spec"),
        (_body(Pod=7), "Pod: Expected `object | null`, got `int`"),
        (_body(NodeNames=None), "NodeNames: is missing"),
        (_body(NodeNames="a"), "NodeNames: Expected `array"),
        (_body(NodeNames=["a", 1]), r"NodeNames\[1\]: Expected `str`, got `int`"),
        (_body().replace(b'"b"', b'"\xff"'), "is not JSON"),
    ],
)
def test_bad_body_is_named(body: bytes, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        list(parse(body).names)


def test_reply_has_go_names() -> None:
    reply = json.loads(filter_reply(FilterResult(["a"], {"b": "x"}, {"c": "y"})))
    assert reply == {
        "Nodes": None,
        "NodeNames": ["a"],
        "FailedNodes": {"b": "x"},
        "FailedAndUnresolvableNodes": {"c": "y"},
        "Error": "",
    }


def test_scores_are_listed() -> None:
    assert prioritize_reply(["a", "b"], np.array([0, 100])) == b'[{"Host":"a","Score":0},{"Host":"b","Score":100}]'
    assert prioritize_reply([], np.zeros(0, np.int64)) == b"[]"


@pytest.mark.parametrize("score", [-1, 101])
def test_scores_stay_in_range(score: int) -> None:
    with pytest.raises(ValueError, match=r"outside of 0\.\.100"):
        prioritize_reply(["a"], np.array([score]))


def test_every_name_has_a_score() -> None:
    with pytest.raises(ValueError, match="shorter"):
        prioritize_reply(["a", "b"], np.array([1]))


def _preempting(**keys: object) -> bytes:
    return json.dumps({"Pod": pod(), "NodeNameToVictims": None, "NodeNameToMetaVictims": None, **keys}).encode()


def test_victims_are_read() -> None:
    meta = {"a": {"Pods": [{"UID": "uid-x"}, {"UID": "uid-y"}], "NumPDBViolations": 1}, "b": {"Pods": None}, "c": None}
    full = {"a": {"Pods": [pod("x"), pod("y")], "NumPDBViolations": 1}, "b": {"Pods": []}, "c": None}
    expected = {"a": Victims(("uid-x", "uid-y"), 1), "b": Victims(()), "c": Victims(())}
    assert parse_preemption(_preempting(NodeNameToMetaVictims=meta)).victims == expected
    assert parse_preemption(_preempting(NodeNameToVictims=full)).victims == expected
    assert parse_preemption(_preempting(NodeNameToVictims={})).victims == {}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (_preempting(), "NodeNameToMetaVictims and NodeNameToVictims: both are missing"),
        (_preempting(NodeNameToMetaVictims=[]), "NodeNameToMetaVictims: Expected `object"),
        (_preempting(NodeNameToMetaVictims={"a": []}), r"NodeNameToMetaVictims\[...\]: Expected `object"),
        (_preempting(NodeNameToMetaVictims={"a": {"Pods": [{}]}}), r"NodeNameToMetaVictims\[a\].Pods\[0\]: has no UID"),
        (_preempting(NodeNameToMetaVictims={"a": {"Pods": [None]}}), r"\[a\].Pods\[0\]: has no UID"),
        (_preempting(NodeNameToMetaVictims={"a": {"NumPDBViolations": "1"}}), "NumPDBViolations: Expected `int"),
        (_preempting(NodeNameToVictims={"a": {"Pods": [{"metadata": {}}]}}), r"Pods\[0\]: has no metadata.uid"),
        (_preempting(Pod=None, NodeNameToVictims={}), "Pod: is missing"),
        (b"[]", "is not an object with Pod and NodeNameToMetaVictims"),
    ],
)
def test_bad_victims_are_named(body: bytes, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        parse_preemption(body)


def test_preemption_is_answered_with_uids() -> None:
    """The response always has uids. kube-scheduler rejects a node without a victim, so there is none."""
    arguments = Preemption(pod(), {"a": Victims(("u",), 2), "b": Victims(())})
    assert json.loads(preempt_reply(arguments.victims, arguments)) == {
        "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u"}], "NumPDBViolations": 2}}
    }
    assert preempt_reply({}, arguments) == b'{"NodeNameToMetaVictims":{}}'
    with pytest.raises(ValueError, match="not sent: z"):
        preempt_reply({"z": Victims(("u",))}, arguments)


def test_errors_are_json() -> None:
    assert json.loads(error_reply('say "no"\n')) == {"Error": 'say "no"\n'}
