"""The bounds of a profile's text: nothing in it is lost, and nothing in it takes long."""

import pytest

from scheduler_plugins.profile import text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("a: 1\nb: {c: 1, c: 2}", "line 2: 'c' stands twice in one object"),
        ("a: &x {b: *x}", "an anchor contains itself"),
        ("[" * 100_000, "line 1: objects are nested deeper than 32"),
        ("{a: " * 40 + "}" * 40, "nested deeper than 32"),
        ("a: 1\n---\nb: 2", "expected a single document"),
        ("a: !!python/object:os.system {}", "could not determine a constructor"),
        ("a: 2001-99-99", "is not YAML"),
        ("? {a: 1}\n: 2", "is not YAML"),
        ("a: b: c", "is not YAML"),
        ("\x1f", "is not YAML"),
        ("x" * (text.LONGEST + 1), "characters, and may have"),
    ],
)
def test_text_is_refused(given: str, says: str) -> None:
    with pytest.raises(text.TextError, match=says.replace("(", r"\(")) as caught:
        text.read(given)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_anchors_are_bounded() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 11)]
    with pytest.raises(text.TextError, match="more than 20000 values"):
        text.read("\n".join(lines))


def test_chains_of_anchors_are_bounded() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 40)]
    with pytest.raises(text.TextError, match="32 objects deep"):
        text.read("\n".join(lines))


def test_merge_bombs_are_bounded() -> None:
    lines = ["a0: &a0 {k: v}"] + [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 9)]
    with pytest.raises(text.TextError, match="more than 20000 values"):
        text.read("\n".join(lines))


def test_anchors_are_read() -> None:
    given = "base: &b {x: 1, y: 2}\nother: &o {<<: *b, y: 3}\nlast: {<<: *o, z: *b}"
    assert text.read(given) == {
        "base": {"x": 1, "y": 2},
        "other": {"x": 1, "y": 3},
        "last": {"x": 1, "y": 3, "z": {"x": 1, "y": 2}},
    }
    assert text.read("") is None
    assert text.read('{"a": [1, 2.5, true, null]}') == {"a": [1, 2.5, True, None]}
