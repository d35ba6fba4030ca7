"""Tells what `make soak` tried."""

from collections.abc import Generator
from typing import Any

import pytest

from tests.fuzz.strength import SOAK, TRIED

_INPUTS = "inputs tried"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Note with each test how many inputs it was given, so that it is known across workers."""
    report = yield
    name = getattr(item, "originalname", "")
    if report.when == "call" and name in TRIED:
        report.user_properties.append((_INPUTS, TRIED[name]))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the tests with their inputs and seconds."""
    if not SOAK:
        return
    terminalreporter.section("what was tried")
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            tried = dict(report.user_properties).get(_INPUTS)
            if tried is not None:
                terminalreporter.write_line(
                    f"{tried:8,} inputs in {report.duration:5.0f} s, {outcome}: {report.nodeid}"
                )
