"""What kopf is told: one validating handler, and to write nothing."""

import logging

import kopf
import pytest

from manager.handlers import admission
from manager.operator import settings_for
from manager.settings import Settings
from manager.webhook.admission import HANDLER


def test_kopf_writes_nothing() -> None:
    """One validating handler is registered, none of the kinds that leave traces, and kopf manages no configuration."""
    registry = kopf.OperatorRegistry()
    admission.register(registry)
    (handler,) = registry._webhooks.get_all_handlers()
    assert (handler.id, str(handler.reason.value), set(handler.operations or ())) == (
        HANDLER,
        "validating",
        {"CREATE", "UPDATE"},
    )
    assert handler.ignore_failures
    for kind in ("_changing", "_spawning", "_indexing", "_watching"):
        assert list(getattr(registry, kind).get_all_handlers()) == []
    assert settings_for(Settings()).admission.managed is None


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        (f"Webhook '{HANDLER}' failed permanently: x", False),  # a refusal, which the server tells in words
        (f"Webhook '{HANDLER}' failed with an exception and will stop now: x", True),
        ("Handler 'nodes' failed permanently: x", True),
    ],
)
def test_only_refusals_are_quiet(message: str, *, kept: bool) -> None:
    """Of what kopf says only a refusal is left out of the log, however often a run registers the handler."""
    logger = logging.getLogger("kopf.objects")
    for _ in range(3):
        admission.register(kopf.OperatorRegistry())
    assert len([each for each in logger.filters if each is admission._is_logged_by_server]) == 1
    record = logger.makeRecord(logger.name, logging.ERROR, "", 0, "%s", (message,), None)
    assert bool(logger.filter(record)) is kept
