import pytest

from crds.colocation import ColocationConfig
from manager.config.in_force import InForce, Origin, after_change, at_start
from manager.config.parse import review

GOOD, BETTER, BAD = '{"enable": true}', '{"enable": true, "midUnallocatedPercent": 5}', '{"enabl": true}'


def start(text: str | None, kept: str | None, since: float = 0.0, now: float = 0.0) -> InForce:
    return at_start(text, present=text is not None, last_good=kept, last_good_since=since, now=now)


FIRST = after_change(InForce(), GOOD, present=True)
NO_KEY = "colocation-config: the ConfigMap has no such key: the defaults apply, and colocation is disabled"


def test_bad_text_keeps_last_good() -> None:
    assert (FIRST.config.enable, FIRST.origin, FIRST.errors) == (True, Origin.CONFIG_MAP, ())
    bad = after_change(FIRST, BAD, present=True)
    assert (bad.config, bad.text, bad.origin) == (FIRST.config, GOOD, Origin.LAST_GOOD)
    assert [str(error) for error in bad.errors] == ["enabl: unknown field: did you mean enable?"]
    assert after_change(bad, BETTER, present=True).config.mid_unallocated_percent == 5


def test_deleted_config_map_means_defaults() -> None:
    assert after_change(InForce(), None, present=False) == InForce()
    gone = after_change(FIRST, None, present=False)
    assert gone == after_change(gone, None, present=False) == start(None, GOOD) == InForce(removed=True)


@pytest.mark.parametrize(("text", "warnings"), [(None, [NO_KEY]), ("", [])])
def test_missing_key_means_defaults(text: str | None, warnings: list[str]) -> None:
    """A missing or empty ConfigMap is no error; a missing key is a warning, also of the webhook."""
    now = after_change(FIRST, text, present=True)
    assert (now.config, now.origin, now.present, now.errors) == (ColocationConfig(), Origin.DEFAULTS, True, ())
    assert [str(warning) for warning in now.warnings] == [str(warning) for warning in review(text).warnings] == warnings
    assert review(text).refusals() == ()


@pytest.mark.parametrize("text", [GOOD, BAD, None])
def test_misspelt_keys_are_warnings(text: str | None) -> None:
    """A key close to the right one is a warning, with and without the right one; Koordinator's other keys are none."""
    keys = ("colocation-confg", "Colocation-Config", "colocation-config", "resource-qos-config", "cpu-burst-config")
    now = after_change(FIRST, text, present=True, keys=keys)
    for warnings in (now.warnings, review(text, keys=keys).warnings):
        misspelt = [warning.path for warning in warnings if "its text is not read: rename the key" in warning.message]
        assert misspelt == ["data.Colocation-Config", "data.colocation-confg"]


@pytest.mark.parametrize(
    ("text", "kept", "enabled", "origin"),
    [
        (BAD, GOOD, True, Origin.LAST_GOOD),
        (BAD, None, None, Origin.DEFAULTS),
        (BAD, "", None, Origin.DEFAULTS),
        (BAD, BAD, None, Origin.DEFAULTS),
        (BETTER, '{"enable": false}', True, Origin.CONFIG_MAP),
    ],
)
def test_start(text: str, kept: str | None, enabled: bool | None, origin: Origin) -> None:  # noqa: FBT001 - a row
    """A good ConfigMap wins; after a bad one what an earlier run kept is in force, else the defaults."""
    now = start(text, kept)
    assert (now.config.enable, now.origin, bool(now.errors)) == (enabled, origin, text == BAD)


def test_time_stays_while_the_text_does() -> None:
    """The text in force keeps its time through a bad edit and its repair; another text has its own."""
    first = after_change(InForce(since=1.0), GOOD, present=True, now=10.0)
    bad = after_change(first, BAD, present=True, now=20.0)
    repaired, other = (after_change(bad, text, present=True, now=30.0) for text in (GOOD, BETTER))
    gone = after_change(first, None, present=False, now=40.0)
    assert [entry.since for entry in (first, bad, repaired, other, gone)] == [10.0, 10.0, 10.0, 30.0, 40.0]
    assert [start(text, GOOD, since=5.0, now=50.0).since for text in (GOOD, BETTER)] == [5.0, 50.0]


def test_unchanged_text_is_allowed() -> None:
    """An existing error does not block an edit of labels; a change of the text is checked."""
    bad = '{"nodeConfigs": [{"name": "gpu", "nodeSelector": {"matchLabels": {"gpu": "y"}}, "mode": "x"}]}'
    assert review(bad, bad).refusals() == ()
    assert review(bad, bad).entry_errors
    assert review(bad, '{"enable": true}').refusals()
