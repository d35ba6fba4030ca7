"""A bad configuration never replaces a good one."""

import pytest

from crds.colocation import ColocationConfig
from manager.config.in_force import InForce, Origin, after_change, at_start
from manager.config.parse import review

GOOD, BETTER, BAD = '{"enable": true}', '{"enable": true, "midUnallocatedPercent": 5}', '{"enabl": true}'


def test_good_text_takes_over() -> None:
    """A good ConfigMap is what is in force."""
    now = after_change(InForce(), GOOD, present=True)
    assert (now.config.enable, now.origin, now.errors) == (True, Origin.CONFIG_MAP, ())


def test_bad_text_keeps_last_good() -> None:
    """After a bad edit the last good configuration stays, with the reasons."""
    good = after_change(InForce(), GOOD, present=True)
    bad = after_change(good, BAD, present=True)
    assert (bad.config, bad.text, bad.origin) == (good.config, GOOD, Origin.LAST_GOOD)
    assert [str(each) for each in bad.errors] == ["enabl: unknown field: did you mean enable?"]
    assert after_change(bad, BETTER, present=True).config.mid_unallocated_percent == 5


def test_deleted_config_map_means_defaults() -> None:
    """Without a ConfigMap the defaults apply."""
    assert after_change(InForce(), None, present=False) == InForce()
    gone = after_change(after_change(InForce(), GOOD, present=True), None, present=False)
    assert gone == after_change(gone, None, present=False) == InForce(removed=True)


def test_key_absent_means_defaults() -> None:
    """A ConfigMap without the key, or with an empty one, is no fault; that the key is absent is said."""
    for text in (None, ""):
        now = after_change(after_change(InForce(), GOOD, present=True), text, present=True)
        assert (now.config, now.origin, now.present, now.errors) == (ColocationConfig(), Origin.DEFAULTS, True, ())
        assert [str(each) for each in now.warnings] == (
            ["colocation-config: the ConfigMap has no such key: the defaults apply, and colocation is disabled"]
            if text is None
            else []
        )


def test_last_good_outlives_restart() -> None:
    """At a start with a bad ConfigMap, what an earlier run kept is in force."""
    now = at_start(BAD, present=True, last_good=GOOD)
    assert (now.config.enable, now.origin) == (True, Origin.LAST_GOOD)
    assert now.errors


def test_restart_without_last_good() -> None:
    """With a bad ConfigMap and nothing usable kept, the defaults apply, and the errors stand."""
    for kept in (None, "", BAD):
        now = at_start(BAD, present=True, last_good=kept)
        assert (now.config, now.origin) == (ColocationConfig(), Origin.DEFAULTS)
        assert now.errors


def test_start_prefers_config_map() -> None:
    """A good ConfigMap wins over what was kept, and so does its absence."""
    assert at_start(BETTER, present=True, last_good=GOOD).config.mid_unallocated_percent == 5
    assert at_start(None, present=False, last_good=GOOD) == InForce(removed=True)


def test_stricter_version_keeps_the_rest() -> None:
    """After an upgrade that accepts less, what was in force stays in force but for the values that are refused now."""
    text = (
        '{"enable": true, "midUnallocatedPercent": 5, "degradeTimeMinutes": 0, '
        '"nodeConfigs": [{"name": "db", "nodeSelector": {}, "enable": false}, {"nodeSelector": {}, "mode": "odd"}]}'
    )
    now = at_start(text, present=True, last_good=text, last_good_since=100.0, now=200.0)
    assert [each.path for each in now.errors] == ["degradeTimeMinutes"]
    assert (now.config.enable, now.config.mid_unallocated_percent) == (True, 5)
    assert now.config.degrade_time_minutes is None
    assert [entry.name for entry in now.config.node_configs or ()] == ["db", None]
    assert (now.origin, now.since) == (Origin.LAST_GOOD, 100.0)
    assert at_start(text, present=True, last_good=None).config == ColocationConfig()


@pytest.mark.parametrize("of", ["[{}]", "[1]", "[null]", '[{"parameters": {}}, {"model": "nsigma-v2"}]'])
@pytest.mark.parametrize("model", ["max", "theirs"])
def test_models_without_a_name_are_not_salvaged(model: str, of: str) -> None:
    """A fault of a list inside the policy takes the policy away, and is looked for once more at most."""
    policy = f'{{"model": "{model}", "of": {of}}}'
    text = f'{{"enable": true, "nodePredictPolicy": {policy}}}'
    config = at_start(text, present=True, last_good=text).config
    assert (config.enable, config.node_predict_policy) == (True, None)
    part = f'{{"enable": true, "nodePredictPolicy": {{"cpu": {policy}}}}}'
    assert at_start(part, present=True, last_good=part).config.enable


def test_nothing_is_salvaged_from_bad_numbers() -> None:
    """A text with numbers that are none is of no use, wherever they hide."""
    text = '{"enable": true, "extensions": {"x": 1e999}}'
    assert at_start(text, present=True, last_good=text).config == ColocationConfig()


def test_time_stays_while_the_text_does() -> None:
    """What is in force keeps its time through a bad edit and its repair; another text has its own."""
    first = after_change(InForce(since=1.0), GOOD, present=True, now=10.0)
    bad = after_change(first, BAD, present=True, now=20.0)
    assert (first.since, bad.since) == (10.0, 10.0)
    assert after_change(bad, GOOD, present=True, now=30.0).since == 10.0
    assert after_change(bad, BETTER, present=True, now=30.0).since == 30.0
    assert after_change(first, None, present=False, now=40.0).since == 40.0
    assert at_start(GOOD, present=True, last_good=GOOD, last_good_since=5.0, now=50.0).since == 5.0
    assert at_start(BETTER, present=True, last_good=GOOD, last_good_since=5.0, now=50.0).since == 50.0


BAD_ENTRY = '{"nodeConfigs": [{"name": "gpu", "nodeSelector": {"matchLabels": {"gpu": "y"}}, "mode": "x"}]}'


def test_unchanged_text_is_allowed() -> None:
    """What is there already does not stand in the way of editing labels; a change of it is judged."""
    assert review(BAD_ENTRY, BAD_ENTRY).refusals() == ()
    assert review(BAD_ENTRY, BAD_ENTRY).entry_errors
    assert review(BAD_ENTRY, '{"enable": true}').refusals()


def test_missing_key_is_warned_of() -> None:
    """A ConfigMap without the key is allowed, and what it means is said."""
    found = review(None)
    assert found.refusals() == ()
    assert [each.path for each in found.warnings] == ["colocation-config"]
