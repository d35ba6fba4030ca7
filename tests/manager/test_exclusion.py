"""Nodes that are excluded by their labels."""

import pytest

from manager.exclusion import Exclusion, parse


@pytest.mark.parametrize(
    ("selector", "labels", "covered"),
    [
        ("type=virtual-kubelet", {"type": "virtual-kubelet"}, True),
        ("type==virtual-kubelet", {"type": "real"}, False),
        ("type=virtual-kubelet", {}, False),
        ("", {"type": "virtual-kubelet"}, False),  # none are excluded
        ("example.com/pool!=a", {}, True),  # as kubectl: a missing label differs
        ("zone in (a, b),!real", {"zone": "b"}, True),
        ("zone in (a, b),!real", {"zone": "b", "real": ""}, False),
        ("zone notin (a)", {"zone": "a"}, False),
        ("node-role.kubernetes.io/edge", {"node-role.kubernetes.io/edge": ""}, True),
        ("empty=", {"empty": ""}, True),
    ],
)
def test_selector_as_of_kubectl(selector: str, labels: dict[str, str], covered: bool) -> None:  # noqa: FBT001 - a row
    """Selectors are written and meant as `kubectl -l` has them."""
    assert Exclusion.of(selector).covers(labels) is covered


@pytest.mark.parametrize("selector", ["a=b=c", "a in b", "in (a)", "=x", "a,,b", "a in ()x", "Ä=1", "a>1"])
def test_bad_selector_is_refused(selector: str) -> None:
    """What is no selector is refused, with the part that is wrong and how to write it."""
    with pytest.raises(ValueError, match="is no label selector: write it like type=virtual-kubelet"):
        parse(selector)
