from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.mid.node_filter import DEFAULT, NodeFilter, parse


@pytest.mark.parametrize(
    ("selector", "labels", "excluded"),
    [
        ("type=virtual-kubelet", {"type": "virtual-kubelet"}, True),
        ("type==virtual-kubelet", {"type": "real"}, False),
        ("type=virtual-kubelet", {}, False),
        ("", {"type": "virtual-kubelet"}, False),  # none are excluded
        ("example.com/pool!=a", {}, True),  # a missing label differs
        ("example.com/pool!=a", {"example.com/pool": "a"}, False),
        ("zone in (a, b),!real", {"zone": "b"}, True),
        ("zone in (a, b),!real", {"zone": "b", "real": ""}, False),
        ("zone in (a, b)", {"zone": "c"}, False),
        ("zone notin (a)", {"zone": "a"}, False),
        ("zone notin (a,b) , type", {"type": ""}, True),
        ("node-role.kubernetes.io/edge", {"node-role.kubernetes.io/edge": ""}, True),
        ("node-role.kubernetes.io/edge", {}, False),
        ("empty=", {"empty": ""}, True),
        ("a=1;b in (2, 3);", {"b": "3"}, True),  # any of them
        ("a=1;b=2", {"a": "2", "b": "1"}, False),
        ("a=1,b=1;c", {"a": "1"}, False),
        (" ; ", {"a": "1"}, False),
        (DEFAULT, {"type": "virtual-kubelet"}, True),
        (DEFAULT, {"virtualization": "virtualnode2"}, True),
        (DEFAULT, {"eks.amazonaws.com/compute-type": "fargate"}, True),
        (DEFAULT, {"eks.amazonaws.com/compute-type": "ec2", "kubernetes.io/os": "linux"}, False),
        ("", {"kubernetes.io/os": "windows"}, True),  # no agent runs there, whatever the selector
        ("a=b", {"kubernetes.io/os": "linux"}, False),
        ("", {"kubernetes.io/os": ""}, False),
    ],
)
def test_selector_as_of_kubectl(selector: str, labels: dict[str, str], excluded: bool) -> None:  # noqa: FBT001 - a row
    assert NodeFilter.of(selector).excludes(labels) is excluded


@pytest.mark.parametrize("selector", ["a=b=c", "a in b", "in (a)", "=x", "a,,b", "a in ()x", "Ä=1", "a>1"])
def test_bad_selector_is_refused(selector: str) -> None:
    with pytest.raises(ValueError, match="is no label selector: write it like type=virtual-kubelet"):
        parse(selector)


@pytest.mark.parametrize("order", [1, -1])
def test_labels_of_two_clouds_are_never_together(order: int) -> None:
    """The manual once said to add the second one after a comma."""
    text = ",".join(["type=virtual-kubelet", "eks.amazonaws.com/compute-type=fargate"][::order])
    with pytest.raises(ValueError, match="separate selectors of which any excludes a node by a semicolon"):
        NodeFilter.of(f"a=b;{text}")


@given(st.text(alphabet="ab=!,() innot/.-\n\u00e4", max_size=30))
def test_any_text_is_a_selector_or_is_refused(text: str) -> None:
    with suppress(ValueError):
        assert NodeFilter.of(text).excludes({"a": "b"}) in {True, False}
