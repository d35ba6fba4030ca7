"""The JSON of `k8s.io/kube-scheduler/extender/v1`. Its Go structs carry no tags, so the keys are Go names.

Bodies are read and written by msgspec: it names the key that is wrong, and makes
5,000 scores JSON in a third of a millisecond.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec

from headroom.runtime.removed import removed
from scheduler_plugins.framework.plugin import Victims
from scheduler_plugins.snapshot.arrays import IntArray
from scheduler_plugins.snapshot.names import RequestedNames
from scheduler_plugins.steps.in_python import MAX_SCORE


class BadRequest(ValueError):  # noqa: N818 - it is what HTTP calls it
    """A body that is no request of an extender; the message has the reason."""


class FullNodes(BadRequest):
    """A request with Node objects in place of names: nodeCacheCapable is not true."""


@dataclass(slots=True)  # one that is frozen takes five times as long to make
class Arguments:
    """The arguments of filter and prioritize (ExtenderArgs)."""

    pod: Mapping[str, Any]  # the pod, as `decode_pod` or `undecoded` returns it
    names: Sequence[str]  # the nodes in question, each once


@dataclass(slots=True)  # as above
class FilterResult:
    """The answer to filter (ExtenderFilterResult)."""

    names: Sequence[str] = ()  # the nodes that the pod may be bound to
    failed: Mapping[str, str] | None = None  # refused nodes with their reasons, on which evicting pods may help
    unresolvable: Mapping[str, str] | None = None  # refused nodes with their reasons, on which it does not
    error: str = ""  # why there is no answer
    families: frozenset[str] = frozenset()
    """The reasons without numbers, for metrics, where no node is left."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """The arguments of preempt (ExtenderPreemptionArgs)."""

    pod: Mapping[str, Any]  # the pod that found no node, as `Arguments.pod`
    victims: Mapping[str, Victims]  # the pods that would have to go, by node; maybe none


# The bodies


_NOTHING: Final = msgspec.Raw(b"null")


class _Part(msgspec.Struct):
    """An object of which only the presence counts."""


class _Identity(msgspec.Struct, rename="camel"):
    name: Any = None
    namespace: Any = None
    uid: Any = None
    resource_version: Any = None


class _Pod(msgspec.Struct):
    metadata: _Identity | None = None
    spec: _Part | None = None


class _Arguments(msgspec.Struct, rename="pascal"):
    pod: msgspec.Raw = _NOTHING
    nodes: msgspec.Raw = _NOTHING
    node_names: msgspec.Raw = _NOTHING


class _Filtered(msgspec.Struct, rename="pascal"):
    nodes: None
    node_names: Sequence[str]
    failed_nodes: Mapping[str, str]
    failed_and_unresolvable_nodes: Mapping[str, str]
    error: str


class _HostPriority(msgspec.Struct, rename="pascal", gc=False):
    host: str
    score: int


class _Meta(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta


class _MetaPod(msgspec.Struct):
    uid: str = msgspec.field(name="UID", default="")


class _Victims(msgspec.Struct):
    pods: list[_Object | None] | None = msgspec.field(name="Pods", default=None)
    violations: int | None = msgspec.field(name="NumPDBViolations", default=None)


class _MetaVictims(msgspec.Struct):
    pods: list[_MetaPod | None] | None = msgspec.field(name="Pods", default=None)
    violations: int | None = msgspec.field(name="NumPDBViolations", default=None)


class _Preempting(msgspec.Struct, rename="pascal"):
    pod: msgspec.Raw = _NOTHING
    node_name_to_victims: dict[str, _Victims | None] | None = None
    node_name_to_meta_victims: dict[str, _MetaVictims | None] | None = None


_Body = TypeVar("_Body")
_POD: Final = msgspec.json.Decoder(_Pod | None)
_NAMES: Final = msgspec.json.Decoder(list[str])
_ARGUMENTS: Final = msgspec.json.Decoder(_Arguments)
_PREEMPTING: Final = msgspec.json.Decoder(_Preempting)
_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENCODE: Final = msgspec.json.Encoder().encode


def parse(body: bytes) -> Arguments:
    """Read a request to filter or prioritize. Raises BadRequest: it is not one, or names no nodes.

    A name that is no text raises it where the names are read.
    """
    arguments = _read(_ARGUMENTS.decode, body, "Pod and NodeNames")
    if _NOTHING in (arguments.pod, arguments.node_names):
        arguments = _read(_ARGUMENTS.decode, _in_go_case(body, _Arguments), "Pod and NodeNames")
    pod = _pod(arguments.pod)
    if arguments.node_names != _NOTHING:
        return Arguments(pod, RequestedNames(arguments.node_names, _read_names))
    if arguments.nodes != _NOTHING:
        raise FullNodes(removed("argument", "extenders.nodeCacheCapable"))
    raise BadRequest("NodeNames: is missing")


def _read_names(text: msgspec.Raw) -> list[str]:
    return _read(_NAMES.decode, text, "Pod and NodeNames", "NodeNames")


def parse_preemption(body: bytes) -> Preemption:
    """Read a request to preempt. Raises BadRequest: it is not one."""
    arguments = _read(_PREEMPTING.decode, body, "Pod and NodeNameToMetaVictims")
    if arguments.pod == _NOTHING or (
        arguments.node_name_to_meta_victims is None and arguments.node_name_to_victims is None
    ):
        arguments = _read(_PREEMPTING.decode, _in_go_case(body, _Preempting), "Pod and NodeNameToMetaVictims")
    pod = _pod(arguments.pod)
    result: Mapping[str, _MetaVictims | _Victims | None]
    if arguments.node_name_to_meta_victims is not None:
        result, key, what, uid = arguments.node_name_to_meta_victims, "NodeNameToMetaVictims", "UID", attrgetter("uid")
    elif arguments.node_name_to_victims is not None:
        key, what, uid = "NodeNameToVictims", "metadata.uid", attrgetter("metadata.uid")
        result = arguments.node_name_to_victims
    else:
        raise BadRequest("NodeNameToMetaVictims and NodeNameToVictims: both are missing, one has to be there")
    victims = {}
    for node, given in result.items():
        uids = tuple(uid(victim) if victim else "" for victim in (given and given.pods) or ())
        if not all(uids):
            raise BadRequest(f"{key}[{node}].Pods[{uids.index('')}]: has no {what}")
        victims[node] = Victims(uids, (given and given.violations) or 0)
    return Preemption(pod, victims)


def _read(
    decode: Callable[[bytes | msgspec.Raw], _Body], body: bytes | msgspec.Raw, expected: str, within: str = ""
) -> _Body:
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        field = f"{within}{where}".rstrip("`").removeprefix(".")
        raise BadRequest(f"{field}: {what}" if field else f"the body is not an object with {expected}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    except RecursionError as error:
        raise BadRequest("the body is nested too deeply") from error


def _in_go_case(body: bytes, kind: type[msgspec.Struct]) -> bytes:
    """A body under the keys that it should have: Go reads them in any case, and old clients write them in lower case.

    Raises BadRequest: it is not a JSON object.
    """
    keys = {key.lower(): key for key in kind.__struct_encode_fields__}
    parts = _read(_PARTS.decode, body, " and ".join(keys.values()))
    return _ENCODE({keys.get(name.lower(), name): part for name, part in parts.items()})


def _pod(raw: msgspec.Raw) -> Mapping[str, Any]:
    """The pod, not decoded: the watch usually has brought it. Raises BadRequest: it has not the parts of a pod."""
    parts = _read(_POD.decode, raw, "Pod", "Pod")
    if parts is None:
        raise BadRequest("Pod: is missing")
    if parts.metadata is None or parts.spec is None:
        raise BadRequest("Pod: is missing its metadata or its spec")
    identity = msgspec.to_builtins(parts.metadata)
    return {"metadata": {name: text for name, text in identity.items() if isinstance(text, str)}, "raw": raw}


# The replies


def filter_reply(result: FilterResult) -> bytes:
    """The JSON of a filter result."""
    failed, unresolvable = result.failed or {}, result.unresolvable or {}
    return _ENCODE(_Filtered(None, result.names, failed, unresolvable, result.error))


def prioritize_reply(names: Sequence[str], scores: IntArray) -> bytes:
    """The JSON of a HostPriorityList.

    Raises ValueError: a score is out of range, which kube-scheduler would not notice; or there is not one per name.
    """
    if len(scores) and not (scores.min() >= 0 and scores.max() <= MAX_SCORE):
        raise ValueError(f"a score is outside of 0..{MAX_SCORE:.0f}: {scores.min()}..{scores.max()}")
    listed: list[int] = scores.tolist()
    return _ENCODE([_HostPriority(name, score) for name, score in zip(names, listed, strict=True)])


def preempt_reply(victims: Mapping[str, Victims], arguments: Preemption) -> bytes:
    """The JSON of an ExtenderPreemptionResult. A node without a victim is left out: kube-scheduler rejects it.

    Raises ValueError: it names a node that was not requested, on which kube-scheduler would evict pods.
    """
    if unknown := victims.keys() - arguments.victims.keys():
        raise ValueError(f"the response names nodes that were not sent: {', '.join(sorted(unknown))}")
    selected = {
        node: _MetaVictims([_MetaPod(uid) for uid in given.uids], given.budget_violations)
        for node, given in victims.items()
        if given.uids
    }
    return _ENCODE({"NodeNameToMetaVictims": selected})


def error_reply(message: str) -> bytes:
    return _ENCODE({"Error": message})
