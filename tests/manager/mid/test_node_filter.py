from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.mid.node_filter import NodeFilter, parse


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


@given(st.text(alphabet="ab=!,() innot/.-\n\u00e4", max_size=30))
def test_any_text_is_a_selector_or_is_refused(text: str) -> None:
    with suppress(ValueError):
        assert NodeFilter.of(text).excludes({"a": "b"}) in {True, False}
