"""What was removed, and what to use in its place."""

from headroom.runtime.removed import REMOVED, removed


def test_table_of_removed_things() -> None:
    """Each entry has one of the four kinds, and a sentence that says that it was removed and goes on."""
    for (kind, name), sentence in REMOVED.items():
        assert kind in {"argument", "flag", "command", "value"}
        assert name
        assert "was removed: " in sentence


def test_what_was_never_there() -> None:
    """What was never there has no sentence."""
    assert removed("argument", "reclaim.enabled") is None
