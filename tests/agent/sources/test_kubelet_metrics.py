"""How requests to kubelet are counted."""

from pathlib import Path
from typing import cast

import pytest

from agent.host.cgroup import CgroupTree
from agent.settings import KubeletSettings
from agent.sources.kubelet import KubeletPods
from headroom import kube
from tests.headroom.kube.fake import answer, refused, serving


class _NoCgroups:
    """A machine without pods."""

    def pods(self) -> dict[str, Path]:
        """None."""
        return {}


async def test_requests_are_timed() -> None:
    """Each request is reported with its HTTP status and how long it took; one without an answer, too."""
    reported: list[tuple[str, float]] = []

    def login(_address: tuple[str, int]) -> kube.Connection:
        pytest.fail("no session is opened here")

    source = KubeletPods(KubeletSettings(), login, lambda: None, cast("CgroupTree", _NoCgroups()))
    source.on_request = lambda code, seconds: reported.append((code, seconds))
    async with serving() as (fake, api):
        fake.add("list", answer({"kind": "PodList", "items": []}), refused(503), refused(403))
        for _ in range(3):
            await source.poll(api)
    async with kube.ApiServer(api.connection, user_agent="test") as api:
        await source.poll(api)
    assert [code for code, _ in reported] == ["200", "503", "403", "none"]
    assert all(seconds > 0 for _, seconds in reported)
