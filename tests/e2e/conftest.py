"""The demo's cluster, once for all end-to-end tests: the services as pods on a real node, replayed nodes beside it."""

from collections.abc import Iterator

import pytest

from demo.stage import stage
from demo.story import Story


@pytest.fixture(scope="session")
def story(real_node_requirements: None) -> Iterator[Story]:  # noqa: ARG001 -- it skips by name where it cannot be
    """The demo's story on its own cluster; nothing of it stays behind."""
    with stage("e2e") as story:
        yield story
