"""What is said about an edit before it is made."""

from manager.config.parse import review

BAD_ENTRY = '{"nodeConfigs": [{"name": "gpu", "nodeSelector": {"matchLabels": {"gpu": "y"}}, "mode": "x"}]}'


def test_good_text_passes() -> None:
    """A good text has nothing that would be refused, and says what it would put in force."""
    found = review('{"enable": true}')
    assert found.refusals() == ()
    assert found.config is not None
    assert found.config.enable is True


def test_faults_are_refused() -> None:
    """Faults of the cluster's part and of entries are refused alike: it is better to mend them now."""
    assert [str(each) for each in review('{"enabl": true}').refusals()] == [
        "enabl: unknown field: did you mean enable?"
    ]
    assert [each.path for each in review(BAD_ENTRY).refusals()] == ["nodeConfigs[0].mode"]


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


def test_overlaps_are_warnings() -> None:
    """Entries that some node may both match are no reason to refuse."""
    found = review(
        '{"nodeConfigs": [{"name": "a", "nodeSelector": {"matchLabels": {"a": "y"}}},'
        ' {"name": "b", "nodeSelector": {"matchLabels": {"b": "y"}}}]}'
    )
    assert found.refusals() == ()
    assert [str(each) for each in found.warnings] == [
        "nodeConfigs[1]: a node with labels a=y, b=y matches nodeConfigs[0] a too, which comes first and applies"
    ]
