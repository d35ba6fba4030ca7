"""The browser of the page's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.manager.web.browser import running


@pytest.fixture(scope="module")
def browser(browser_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a running browser."""
    with running(browser_program, tmp_path_factory.mktemp("browser")) as port:
        yield port
