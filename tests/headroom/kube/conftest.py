from collections.abc import AsyncIterator

import pytest

from tests.headroom.kube.fake import Fake, serving


@pytest.fixture
async def fake() -> AsyncIterator[Fake]:
    async with serving() as pair:
        yield pair
