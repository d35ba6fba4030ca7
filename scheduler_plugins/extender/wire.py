"""The JSON of `k8s.io/kube-scheduler/extender/v1`. Its Go structs carry no tags, so the keys are Go names.

Bodies are read and written by msgspec: it names the key that is wrong, and makes
5,000 scores JSON in a third of a millisecond.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec

from headroom.cluster.typed_pod import decode_pod, undecoded
from headroom.runtime.removed import removed
from scheduler_plugins.framework.cycle import MAX_SCORE
from scheduler_plugins.framework.plugin import Victims
from scheduler_plugins.snapshot.arrays import IntArray


class BadRequest(ValueError):  # noqa: N818 - it is what HTTP calls it
    """A body that is no request of an extender; the message says why."""


class FullNodes(BadRequest):
    """A request with Node objects in place of names: nodeCacheCapable is not true."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What kube-scheduler asks about (ExtenderArgs)."""

    pod: Mapping[str, Any]  # the pod, as `decode_pod` returns it; its metadata alone where it cannot be read
    names: Sequence[str]  # the nodes in question, each once
    unreadable: str = ""  # why the pod cannot be read, by the path of the field


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The answer to filter (ExtenderFilterResult)."""

    names: Sequence[str] = ()  # the nodes that the pod may be bound to
    failed: Mapping[str, str] | None = None  # refused nodes with their reasons, on which evicting pods may help
    unresolvable: Mapping[str, str] | None = None  # refused nodes with their reasons, on which it does not
    error: str = ""  # why there is no answer
    families: frozenset[str] = frozenset()
    """What the refusals are counted as, where no node is left: their reasons, without numbers."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """What kube-scheduler asks before it evicts pods (ExtenderPreemptionArgs)."""

    pod: Mapping[str, Any]  # the pod that found no node, as `Arguments.pod`
    victims: Mapping[str, Victims]  # the pods that would have to go, by node; maybe none
    unreadable: str = ""  # why the pod cannot be read, by the path of the field


# The bodies


_NOTHING: Final = msgspec.Raw(b"null")


class _Part(msgspec.Struct):
    """An object of which only the presence counts."""


class _Pod(msgspec.Struct):
    metadata: _Part | None = None
    spec: _Part | None = None


class _Asked(msgspec.Struct, rename="pascal"):
    pod: msgspec.Raw = _NOTHING
    nodes: msgspec.Raw = _NOTHING
    node_names: list[str] | None = None


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
_ASKED: Final = msgspec.json.Decoder(_Asked)
_PREEMPTING: Final = msgspec.json.Decoder(_Preempting)
_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENCODE: Final = msgspec.json.Encoder().encode


def parse(body: bytes) -> Arguments:
    """Read a request to filter or prioritize. Raises BadRequest: it is not one, or names no nodes."""
    asked = _read(_ASKED.decode, body, "Pod and NodeNames")
    if asked.pod == _NOTHING or asked.node_names is None:
        asked = _read(_ASKED.decode, _in_go_case(body, _Asked), "Pod and NodeNames")
    pod, unreadable = _pod(asked.pod)
    if asked.node_names is not None:
        names = asked.node_names
        names = names if len(set(names)) == len(names) else list(dict.fromkeys(names))
        return Arguments(pod, names, unreadable)
    if asked.nodes != _NOTHING:
        raise FullNodes(removed("argument", "extenders.nodeCacheCapable"))
    raise BadRequest("NodeNames: is missing")


def parse_preemption(body: bytes) -> Preemption:
    """Read a request to preempt. Raises BadRequest: it is not one."""
    asked = _read(_PREEMPTING.decode, body, "Pod and NodeNameToMetaVictims")
    if asked.pod == _NOTHING or (asked.node_name_to_meta_victims is None and asked.node_name_to_victims is None):
        asked = _read(_PREEMPTING.decode, _in_go_case(body, _Preempting), "Pod and NodeNameToMetaVictims")
    pod, unreadable = _pod(asked.pod)
    result: Mapping[str, _MetaVictims | _Victims | None]
    if asked.node_name_to_meta_victims is not None:
        result, key, what, uid = asked.node_name_to_meta_victims, "NodeNameToMetaVictims", "UID", attrgetter("uid")
    elif asked.node_name_to_victims is not None:
        key, what, uid = "NodeNameToVictims", "metadata.uid", attrgetter("metadata.uid")
        result = asked.node_name_to_victims
    else:
        raise BadRequest("NodeNameToMetaVictims and NodeNameToVictims: both are missing, one has to be there")
    victims = {}
    for node, given in result.items():
        uids = tuple(uid(each) if each else "" for each in (given and given.pods) or ())
        if not all(uids):
            raise BadRequest(f"{key}[{node}].Pods[{uids.index('')}]: has no {what}")
        victims[node] = Victims(uids, (given and given.violations) or 0)
    return Preemption(pod, victims, unreadable)


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


def _pod(raw: msgspec.Raw) -> tuple[Mapping[str, Any], str]:
    """The pod, and why it cannot be read. Raises BadRequest: it has not the parts of a pod."""
    parts = _read(_POD.decode, raw, "Pod", "Pod")
    if parts is None:
        raise BadRequest("Pod: is missing")
    if parts.metadata is None or parts.spec is None:
        raise BadRequest("Pod: is missing its metadata or its spec")
    try:
        return decode_pod(raw), ""
    except ValueError as error:
        return undecoded(raw), str(error)


# The replies


def filter_reply(result: FilterResult, asked: Arguments) -> bytes:
    """The JSON of a filter result.

    Raises ValueError: it names a node that was not asked about, which would make kube-scheduler fail the pod.
    """
    failed, unresolvable = result.failed or {}, result.unresolvable or {}
    _only_sent({*result.names, *failed, *unresolvable}, asked.names)
    return _ENCODE(_Filtered(None, result.names, failed, unresolvable, result.error))


def prioritize_reply(names: Sequence[str], scores: IntArray) -> bytes:
    """The JSON of a HostPriorityList.

    Raises ValueError: a score is out of range, which kube-scheduler would not notice; or there is not one per name.
    """
    if len(scores) and not (scores.min() >= 0 and scores.max() <= MAX_SCORE):
        raise ValueError(f"a score is outside of 0..{MAX_SCORE:.0f}: {scores.min()}..{scores.max()}")
    listed: list[int] = scores.tolist()
    return _ENCODE([_HostPriority(name, score) for name, score in zip(names, listed, strict=True)])


def preempt_reply(victims: Mapping[str, Victims], asked: Preemption) -> bytes:
    """The JSON of an ExtenderPreemptionResult. A node without a victim is left out: kube-scheduler rejects it.

    Raises ValueError: it names a node that was not asked about, on which kube-scheduler would evict pods.
    """
    _only_sent(victims.keys(), asked.victims)
    kept = {
        node: _MetaVictims([_MetaPod(uid) for uid in given.uids], given.budget_violations)
        for node, given in victims.items()
        if given.uids
    }
    return _ENCODE({"NodeNameToMetaVictims": kept})


def error_reply(message: str) -> bytes:
    return _ENCODE({"Error": message})


def _only_sent(named: Iterable[str], sent: Iterable[str]) -> None:
    strangers = set(named).difference(sent)
    if strangers:
        raise ValueError(f"the answer names nodes that were not sent: {', '.join(sorted(strangers))}")
