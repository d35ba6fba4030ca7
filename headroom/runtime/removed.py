"""The arguments, flags, commands and chart values that are refused, and what to use in their place."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Final

_NO_KUBELET: Final = "was removed: the agent reads its pods from the API server (--pods-from=api) or from cgroups"
_FIXED_NAMES: Final = (
    "a cluster has one Headroom, and its programs find objects by the names headroom-agent, headroom-manager and "
    "headroom-scheduler"
)

REMOVED: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("argument", "extenders.nodeCacheCapable"): (
            "nodeCacheCapable: false was removed: set nodeCacheCapable: true for the extender in kube-scheduler's "
            "configuration"
        ),
        ("argument", "reclaim.crossNode"): (
            "crossNode was removed: all victims of a pod run on one node, as in upstream. Leave it out, and let a pod "
            "request no more of its quota than one node can give back"
        ),
        ("command", "backtest -o csv"): "-o csv was removed: -o json has the same figures",
        ("command", "completion"): (
            "completion was removed: kubectl completes `kubectl headroom` itself through the program "
            "kubectl_complete-headroom, which is installed with this one"
        ),
        ("command", "config explain"): "config explain was removed: docs/configuration.md lists every field",
        ("command", "quota explain"): (
            "quota explain was removed: kubectl headroom explain pod NAME -n NAMESPACE shows the quota and the victims"
        ),
        ("command", "--db"): "--db was removed: give --trace a folder that headroom-agent db export --to DIR wrote",
        ("command", "--nodemetrics"): (
            "--nodemetrics was removed: give --prometheus URL, or --trace with what headroom-agent db export wrote"
        ),
        ("command", "--color"): "--color was removed: set NO_COLOR=1 for plain text",
        ("flag", "--pods-from=kubelet"): f"--pods-from=kubelet {_NO_KUBELET}",
        ("flag", "--kubelet-address"): f"--kubelet-address {_NO_KUBELET}",
        ("flag", "--kubelet-ca"): f"--kubelet-ca {_NO_KUBELET}",
        ("flag", "--kubelet-interval"): f"--kubelet-interval {_NO_KUBELET}",
        ("flag", "--kubelet-longest-wait"): f"--kubelet-longest-wait {_NO_KUBELET}",
        ("flag", "--kubelet-timeout"): f"--kubelet-timeout {_NO_KUBELET}",
        **{
            ("value", f"{part}.{old}"): f"{part}.{old} was renamed: use {part}.{new}"
            for part in ("agent", "manager", "scheduler")
            for old, new in (("labels", "podLabels"), ("annotations", "podAnnotations"))
        },
        **{
            ("value", name): f"{name} is not supported: {_FIXED_NAMES}. Leave it out"
            for name in ("nameOverride", "fullnameOverride")
        },
        ("value", "agent.podsFrom=kubelet"): f"agent.podsFrom {_NO_KUBELET}. Leave it out",
        ("value", "agent.kubeletCA"): f"agent.kubeletCA {_NO_KUBELET}. Leave it out",
    }
)
"""A sentence by kind and name. Kinds: argument (of a scheduler plugin), flag, command, value (of the chart).

A name with "=" is refused with this content alone.
"""


def removed(kind: str, name: str) -> str | None:
    """Return the sentence that refuses something that was removed; None: it was never there."""
    return REMOVED.get((kind, name))


def removed_flag(words: Iterable[str]) -> str | None:
    """Return the sentence for the first removed flag among arguments; a flag and its value may be two arguments."""
    for word, following in pairwise((*words, "")):
        for name in (word, word.partition("=")[0], f"{word}={following}"):
            if sentence := removed("flag", name):
                return sentence
    return None
