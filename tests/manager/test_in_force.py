"""A bad configuration never replaces a good one."""

from crds.colocation import ColocationConfig
from manager.config.in_force import InForce, Origin, at_start, judge

GOOD, BETTER, BAD = '{"enable": true}', '{"enable": true, "midUnallocatedPercent": 5}', '{"enabl": true}'


def test_good_text_takes_over() -> None:
    """A good ConfigMap is what is in force."""
    now = judge(InForce(), GOOD, present=True)
    assert (now.config.enable, now.origin, now.errors) == (True, Origin.CONFIG_MAP, ())


def test_bad_text_keeps_last_good() -> None:
    """After a bad edit the last good configuration stays, with the reasons."""
    good = judge(InForce(), GOOD, present=True)
    bad = judge(good, BAD, present=True)
    assert (bad.config, bad.text, bad.origin) == (good.config, GOOD, Origin.LAST_GOOD)
    assert [str(each) for each in bad.errors] == ["enabl: unknown field: did you mean enable?"]
    assert judge(bad, BETTER, present=True).config.mid_unallocated_percent == 5


def test_deleted_config_map_means_defaults() -> None:
    """Without a ConfigMap the defaults apply."""
    assert judge(InForce(), None, present=False) == InForce()
    gone = judge(judge(InForce(), GOOD, present=True), None, present=False)
    assert gone == judge(gone, None, present=False) == InForce(removed=True)


def test_key_absent_means_defaults() -> None:
    """A ConfigMap without the key, or with an empty one, is no fault; that the key is absent is said."""
    for text in (None, ""):
        now = judge(judge(InForce(), GOOD, present=True), text, present=True)
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
