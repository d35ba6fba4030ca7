"""A fake API server that keeps one NodeMetric: enough to see what a publisher sends and what it makes of the answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

from aiohttp import web

import kubeapi
from tests.kubeapi.fake import connection

Json = dict[str, Any]
NAME = "worker"
PATH = f"/apis/slo.koordinator.sh/v1alpha1/nodemetrics/{NAME}"


class FakeApi:
    """Answers like the API server for one object; named fake because it is one."""

    def __init__(self) -> None:
        self.stored: Json | None = {"metadata": {"name": NAME}, "spec": {}}
        """The object; None when there is none."""
        self.down: int = 0
        """HTTP status of every answer while it is not 0."""
        self.prunes: set[str] = set()
        """Keys of the status that the schema does not know."""
        self.patches: list[Json] = []
        """What was sent, in order."""

    async def handle(self, request: web.Request) -> web.Response:
        """GET of the object, PATCH of its status."""
        if self.down:
            return _refusal(self.down, "the fake is down")
        if self.stored is None:
            return _refusal(404, "not found")
        if request.method == "PATCH":
            assert request.path == f"{PATH}/status"
            assert request.content_type == "application/merge-patch+json"
            patch = await request.json()
            self.patches.append(patch)
            status = merged(self.stored.get("status") or {}, patch["status"])
            self.stored["status"] = {key: value for key, value in status.items() if key not in self.prunes}
        return web.json_response(self.stored)


def merged(target: Json, patch: Json) -> Json:
    """RFC 7386."""
    result = deepcopy(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            before = result.get(key)
            result[key] = merged(before if isinstance(before, dict) else {}, value)
        else:
            result[key] = value
    return result


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[FakeApi, kubeapi.ApiServer]]:
    """A fake on loopback and a client of it."""
    fake = FakeApi()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fake.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with kubeapi.ApiServer(connection(url), user_agent="test") as api:
            yield fake, api
    finally:
        await runner.cleanup()


def _refusal(status: int, message: str) -> web.Response:
    body = {"kind": "Status", "reason": "NotFound" if status == 404 else "Reason", "message": message, "code": status}
    return web.json_response(body, status=status)
