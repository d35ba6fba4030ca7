from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.reporter.merge_patch import dropped_paths, merge_patch, patch_of_keys

LEAVES = st.one_of(st.integers(0, 3), st.text("xy", max_size=2), st.lists(st.integers(0, 2), max_size=2))
OBJECTS = st.recursive(
    st.dictionaries(st.sampled_from("abc"), LEAVES),
    lambda inner: st.dictionaries(st.sampled_from("abc"), LEAVES | inner),
)


def applied(current: Any, patch: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    """RFC 7386."""
    result = dict(current) if isinstance(current, dict) else {}
    for key, value in patch.items():
        result[key] = applied(result.get(key), value) if isinstance(value, dict) else value
    return {key: value for key, value in result.items() if value is not None}


@given(OBJECTS, OBJECTS)
def test_patch_yields_the_wanted_state(current: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert applied(current, merge_patch(current, wanted)) == wanted


def test_only_keys_that_are_ours_are_sent_and_those_that_are_gone_removed() -> None:
    current = {"ours": 1, "gone": 2, "theirs": 3, "p": {"n": 3}}
    wanted = {"ours": 4, "theirs": 5, "p": {"windowDays": 7}}
    sent = {"ours": 4, "gone": None, "p": {"n": None, "windowDays": 7}}
    assert patch_of_keys(current, wanted, frozenset({"ours", "gone", "p"})) == sent


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
def test_dropped_fields_are_named_once(wanted: Any, answered: Any, paths: list[str]) -> None:  # noqa: ANN401
    assert dropped_paths(wanted, answered) == paths
