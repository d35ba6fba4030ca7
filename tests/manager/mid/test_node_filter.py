"""Nodes that are excluded by their labels."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.mid.node_filter import NodeFilter, parse


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
    assert NodeFilter.of(selector).excludes(labels) is covered


@pytest.mark.parametrize("selector", ["a=b=c", "a in b", "in (a)", "=x", "a,,b", "a in ()x", "Ä=1", "a>1"])
def test_bad_selector_is_refused(selector: str) -> None:
    """What is no selector is refused, with the part that is wrong and how to write it."""
    with pytest.raises(ValueError, match="is no label selector: write it like type=virtual-kubelet"):
        parse(selector)


_KEYS = st.sampled_from(["type", "zone", "example.com/pool", "node-role.kubernetes.io/edge"])
_VALUES = st.sampled_from(["", "a", "b-c.d_e", "virtual-kubelet", "1"])
_REQUIREMENTS = st.one_of(
    st.tuples(_KEYS, st.sampled_from(["=", "==", "!="]), st.lists(_VALUES, min_size=1, max_size=1)),
    st.tuples(_KEYS, st.sampled_from(["in", "notin"]), st.lists(_VALUES, min_size=1, max_size=3)),
    st.tuples(_KEYS, st.sampled_from(["exists", "!"]), st.just(list[str]())),
)
Requirement = tuple[str, str, list[str]]


def _text(requirement: Requirement) -> str:
    key, operator, values = requirement
    texts = {"in": f"{key} in ({', '.join(values)})", "notin": f"{key} notin ({','.join(values)})"}
    texts |= {"exists": key, "!": f"!{key}"}
    return texts.get(operator) or f"{key}{operator}{values[0]}"


def _holds(requirement: Requirement, labels: dict[str, str]) -> bool:
    key, operator, values = requirement
    if operator in {"exists", "!"}:
        return (key in labels) == (operator == "exists")
    return (labels.get(key) in values) == (operator in {"=", "==", "in"})


@given(st.lists(_REQUIREMENTS, min_size=1, max_size=4), st.dictionaries(_KEYS, _VALUES))
def test_every_requirement_counts(requirements: list[Requirement], labels: dict[str, str]) -> None:
    """A selector covers a node when each of its requirements holds."""
    selector = " , ".join(map(_text, requirements))
    assert NodeFilter.of(selector).excludes(labels) is all(_holds(each, labels) for each in requirements)


@given(st.text(alphabet="ab=!,() innot/.-\n\u00e4", max_size=30))
def test_odd_selectors_are_judged(text: str) -> None:
    """Any text is a selector or is refused."""
    with suppress(ValueError):
        assert NodeFilter.of(text).excludes({"a": "b"}) in {True, False}
