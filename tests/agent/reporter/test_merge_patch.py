"""Merge patches of our part of a status."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.reporter.merge_patch import dropped_paths, merge_patch, patch_of_keys
from tests.agent.reporter.fake_api import merged

KEYS = st.sampled_from("abc")
LEAVES = st.one_of(st.integers(0, 3), st.text("xy", max_size=2), st.lists(st.integers(0, 2), max_size=2))
OBJECTS = st.recursive(st.dictionaries(KEYS, LEAVES), lambda inner: st.dictionaries(KEYS, st.one_of(LEAVES, inner)))


@given(OBJECTS, OBJECTS)
def test_patch_makes_what_is_wanted(current: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Applied to the object as it is, the patch makes the object as it should be."""
    assert merged(current, merge_patch(current, wanted)) == wanted


def test_vanished_keys_are_nulled() -> None:
    """A parameter of another model does not linger in a map."""
    assert merge_patch({"p": {"n": 3}}, {"p": {"windowDays": 7}}) == {"p": {"n": None, "windowDays": 7}}


def test_others_are_left_alone() -> None:
    """Only the keys that are ours are sent, and ours that are gone are removed."""
    current = {"ours": 1, "gone": 2, "theirs": 3}
    assert patch_of_keys(current, {"ours": 4, "theirs": 5}, frozenset({"ours", "gone"})) == {"ours": 4, "gone": None}


@pytest.mark.parametrize(
    ("wanted", "answered", "paths"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 1}}, []),
        ({"a": {"b": 1}, "c": 1}, {"a": {}}, ["a.b", "c"]),
        ({"a": [{"b": 1, "c": 2}, {"b": 1, "c": 3}]}, {"a": [{"b": 1}, {"b": 1}]}, ["a[].c"]),
        ({"a": None, "b": {}, "c": []}, {}, []),  # nothing was lost
        ({"a": {"b": 1}}, {"a": "text"}, ["a"]),
    ],
)
def test_lost_paths_are_named(wanted: Any, answered: Any, paths: list[str]) -> None:  # noqa: ANN401
    """What the server dropped is named once, by path."""
    assert dropped_paths(wanted, answered) == paths
