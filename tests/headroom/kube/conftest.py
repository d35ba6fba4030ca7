from collections.abc import AsyncIterator

import pytest

from tests.headroom.kube.fake import Fake, serving


@pytest.fixture
async def fake() -> AsyncIterator[Fake]:
    """A fake server and a session with it."""
    async with serving() as pair:
        yield pair
