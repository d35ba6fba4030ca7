"""A fake API server that keeps one NodeMetric: enough to see what a publisher sends and what it makes of the answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

from aiohttp import web

from headroom import kube
from tests.headroom.kube.fake import connection

Json = dict[str, Any]
NAME = "worker"
PATH = f"/apis/slo.koordinator.sh/v1alpha1/nodemetrics/{NAME}"


class FakeApi:
    """Answers like the API server for one object; named fake because it is one."""

    def __init__(self) -> None:
        self.stored: Json | None = {"metadata": {"name": NAME, "uid": "u1", "generation": 1}, "spec": {}}
        """The object; None when there is none."""
        self.events_down = False  # whether it takes no events
        self.down: int = 0  # HTTP status of every answer while it is not 0
        self.reason = "Reason"  # why, in one word; empty as for an undefined kind
        self.retry_after: str | None = None  # what it asks for while it is down. [s]
        self.token: str | None = None  # the only token that it accepts; None for any login
        self.refuses: set[str] = set()  # keys of a status for which a patch is invalid
        self.prunes: set[str] = set()  # keys of the status that the schema does not know
        self.patches: list[Json] = []  # what was sent, in order
        self.events: list[Json] = []  # the events that were written, in order
        self.requests: list[str] = []  # what was asked: method and path

    def edit(self, spec: Json) -> None:
        """Change the spec as the manager does."""
        assert self.stored is not None
        self.stored["spec"] = spec
        self.stored["metadata"]["generation"] += 1

    def tell(self, *conditions: Json) -> None:
        """Write conditions as another program does: beside those that are there."""
        assert self.stored is not None
        status = self.stored.setdefault("status", {})
        names = {one["type"] for one in conditions}
        rest = [one for one in status.get("conditions", []) if one["type"] not in names]
        status["conditions"] = [*rest, *conditions]
        version = int(self.stored["metadata"].get("resourceVersion", 0)) + 1
        self.stored["metadata"]["resourceVersion"] = str(version)

    def recreate(self) -> None:
        """Delete the object and make it again."""
        assert self.stored is not None
        uid = self.stored["metadata"]["uid"] + "x"
        self.stored = {"metadata": {"name": NAME, "uid": uid, "generation": 1}, "spec": {}}

    async def handle(self, request: web.Request) -> web.Response:
        """GET of the object, PATCH of its status."""
        self.requests.append(f"{request.method} {request.path}")
        refused = self._refused(request)
        if refused is not None:
            return refused
        if "/events" in request.path:
            self.events.append(await request.json())
            return web.json_response(self.events[-1])
        if self.stored is None:
            return _refusal(404, "NotFound", "not found")
        if request.method == "PATCH":
            return await self._patch(request)
        if "PartialObjectMetadata" in request.headers["Accept"]:
            return web.json_response({"metadata": self.stored["metadata"]})
        return web.json_response(self.stored)

    def _refused(self, request: web.Request) -> web.Response | None:
        if self.down:
            headers = {} if self.retry_after is None else {"Retry-After": self.retry_after}
            return _refusal(self.down, self.reason, "the fake is down", headers)
        if self.events_down and "/events" in request.path:
            return _refusal(503, "ServiceUnavailable", "no events now")
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            return _refusal(401, "Unauthorized", "Unauthorized")
        return None

    async def _patch(self, request: web.Request) -> web.Response:
        assert self.stored is not None
        assert request.path == f"{PATH}/status"
        assert request.content_type == "application/merge-patch+json"
        patch = await request.json()
        if self.refuses & patch["status"].keys():
            return _refusal(422, "Invalid", "must not be")
        version = (patch.get("metadata") or {}).get("resourceVersion")
        if version not in (None, self.stored["metadata"].get("resourceVersion")):
            return _refusal(409, "Conflict", "the object has been modified")
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
async def serving() -> AsyncIterator[tuple[FakeApi, kube.ApiServer]]:
    """A fake on loopback and a client of it."""
    fake = FakeApi()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fake.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with kube.ApiServer(connection(url), user_agent="test") as api:
            yield fake, api
    finally:
        await runner.cleanup()


def _refusal(status: int, reason: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"kind": "Status", "reason": reason, "message": message, "code": status}
    return web.json_response(body, status=status, headers=headers)
