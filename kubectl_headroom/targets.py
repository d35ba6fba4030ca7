"""The objects that a command line names, as kubectl writes them: `TYPE NAME`, `TYPE/NAME`, plurals and short names."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_NOT_IN_NAMES: Final = frozenset("/%?# ")
NODE: Final = "node"
POD: Final = "pod"
QUOTA: Final = "quota"
WORKLOADS: Final[Mapping[str, tuple[str, str]]] = {
    "deployment": ("apps/v1", "Deployment"),
    "replicaset": ("apps/v1", "ReplicaSet"),
    "statefulset": ("apps/v1", "StatefulSet"),
    "daemonset": ("apps/v1", "DaemonSet"),
    "job": ("batch/v1", "Job"),
    "cronjob": ("batch/v1", "CronJob"),
}
"""The types with a template of pods -> their API version and kind."""
_SHORT: Final[Mapping[str, tuple[str, ...]]] = {
    NODE: ("no",),
    POD: ("po",),
    QUOTA: ("elasticquota", "elasticquotas", "eq", "eqs"),
    "deployment": ("deploy",),
    "replicaset": ("rs",),
    "statefulset": ("sts",),
    "daemonset": ("ds",),
    "cronjob": ("cj",),
}


def name(text: str) -> str:
    """Return the name of an object, which becomes a part of a path: it must not lead to another one.

    Raises:
        ArgumentTypeError: no object can be called so.
    """
    if text in {"", ".", ".."} or not text.isprintable() or not _NOT_IN_NAMES.isdisjoint(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name that an object can have")
    return text


def kind_of(word: str, kinds: Iterable[str]) -> str | None:
    """Return the type that a word means, also with its API group, as of `kubectl get -o name`; None: none of these."""
    text = word.partition(".")[0].lower()
    return next((kind for kind in kinds if text in {kind, f"{kind}s", *_SHORT.get(kind, ())}), None)


def parse(words: Sequence[str], kinds: Sequence[str]) -> tuple[str, list[str]]:
    """Return the type and the names of `TYPE [NAME...]` or `TYPE/NAME...`.

    Args:
        words: the words of the command line.
        kinds: the types that the command takes.

    Raises:
        ArgumentTypeError: the type is absent or unknown, or there are several, or a word is not a name.
    """
    if not words:
        raise argparse.ArgumentTypeError("the following arguments are required: TYPE")
    pairs = [word.partition("/")[::2] if "/" in word else None for word in words]
    if all(pairs):
        types = [_kind(pair[0], kinds) for pair in pairs if pair]
        if len(set(types)) > 1:
            raise argparse.ArgumentTypeError("the names are of several types: one command takes one type")
        return types[0], [name(pair[1]) for pair in pairs if pair]
    if any(pair and kind_of(pair[0], kinds) for pair in pairs):
        raise argparse.ArgumentTypeError("TYPE/NAME has the type already: leave out the separate one")
    return _kind(words[0], kinds), [name(word) for word in words[1:]]


def _kind(word: str, kinds: Sequence[str]) -> str:
    result = kind_of(word, kinds)
    if result is None:
        raise argparse.ArgumentTypeError(f"unknown type: {word}; known are {', '.join(kinds)}")
    return result
