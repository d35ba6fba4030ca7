import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
import yaml
from aiohttp import web

from headroom import kube
from headroom.kube import ApiError, ApiServer, ApiUnavailable, Connection
from tests.headroom.kube.fake import Fake, answer, connection, listed, refused, serving

PATH = "/api/v1/pods"


async def test_pages_become_one_list(fake: Fake) -> None:
    """A list is read page by page, with the selectors on every page."""
    server, api = fake
    server.add("list", listed("7", "a", proceed="more"), listed("7", "b", "c"))
    items, version = await api.list(PATH, {"fieldSelector": "x=y"})
    assert [result["metadata"]["name"] for result in items] == ["a", "b", "c"]
    assert version == "7"
    assert server.queries("list") == [
        {"limit": "25", "fieldSelector": "x=y"},
        {"limit": "100", "fieldSelector": "x=y", "continue": "more"},
    ]


async def test_expired_page_restarts_the_list(fake: Fake) -> None:
    """When the pages' resourceVersion has expired, the list starts again at a later one, in larger pages."""
    server, api = fake
    server.add("list", listed("7", "a", proceed="more"), refused(410, "Expired"), listed("9", "b", "c"))
    items, version = await api.list(PATH)
    assert ([result["metadata"]["name"] for result in items], version) == (["b", "c"], "9")
    assert server.queries("list")[2] == {"limit": "400"}


async def test_no_moment_lasts_two_pages(fake: Fake) -> None:
    """Where each second page comes too late, pages grow until there is one: the list ends."""
    server, api = fake

    async def reply(request: web.Request) -> web.StreamResponse:
        if "continue" in request.query:
            return await refused(410, "Expired")(request)
        names = [str(number) for number in range(3000)]
        limit = int(request.query["limit"])
        return await listed("7", *names[:limit], proceed="more" if limit < len(names) else "")(request)

    server.add("list", *[reply] * 20)
    items, _ = await api.list(PATH)
    assert len(items) == 3000
    assert len(server.requests) < 20


@pytest.mark.parametrize("kibibytes", [1, 3, 20, 60, 3000])
async def test_pages_are_small(fake: Fake, kibibytes: int) -> None:
    """Whatever the objects take, about half a mebibyte comes at a time, which is parsed in one go; none is left out."""
    server, api = fake
    objects: list[dict[str, Any]] = [
        {"metadata": {"name": str(number)}, "x": "x" * kibibytes * 1024} for number in range(40 + 2000 // kibibytes)
    ]
    sizes: list[int] = []

    async def reply(request: web.Request) -> web.StreamResponse:
        first, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        sizes.append(min(len(objects) - first, limit) * kibibytes * 1024)
        more = {"continue": str(first + limit)} if first + limit < len(objects) else {}
        return await answer({"items": objects[first : first + limit], "metadata": {"resourceVersion": "7", **more}})(
            request
        )

    server.add("list", *[reply] * 200)
    items, _ = await api.list(PATH, keep=lambda item: item["metadata"]["name"])
    assert items == [str(number) for number in range(len(objects))]
    assert max(sizes[1:]) <= max(2**19, kibibytes * 1024)
    assert kibibytes > 3 or len(sizes) < 12


async def test_first_page_gone_is_an_error(fake: Fake) -> None:
    """A 410 without any page read is the caller's to know."""
    server, api = fake
    server.add("list", refused(410, "Expired"))
    with pytest.raises(ApiError) as caught:
        await api.list(PATH)
    assert caught.value.gone


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (kube.MERGE_PATCH, {"a": None}),
        (kube.JSON_PATCH, [{"op": "remove", "path": "/a"}]),
        (kube.STRATEGIC_MERGE_PATCH, {"a": 1}),
        (kube.APPLY, {"apiVersion": "v1"}),
    ],
)
async def test_patch_content_types(fake: Fake, content_type: str, body: Any) -> None:  # noqa: ANN401
    """A patch is sent with its content type and parameters."""
    server, api = fake
    server.add("PATCH", answer({"done": True}))
    assert await api.patch(f"{PATH}/a", body, content_type, {"fieldManager": "me"}) == {"done": True}
    request = server.requests[0]
    assert (request.headers["Content-Type"], request.query["fieldManager"]) == (content_type, "me")
    assert server.bodies == [body]


async def test_any_text_can_be_applied(fake: Fake) -> None:
    """An apply body is read as YAML: no half of a character is escaped, and no unprintable character is raw."""
    server, api = fake
    server.add("PATCH", answer({}))
    body = {"metadata": {"name": "😀 ä \x1b\x7f\x85\u2028\ufeff"}}
    await api.patch(f"{PATH}/a", body, kube.APPLY, {"fieldManager": "me"})
    assert server.bodies == [body]
    assert yaml.safe_load(server.texts[0]) == body


async def test_metadata_alone(fake: Fake) -> None:
    """Only metadata is requested and returned."""
    server, api = fake
    server.add("list", answer({"kind": "PartialObjectMetadata", "metadata": {"generation": 7}}))
    assert await api.metadata(PATH) == {"generation": 7}
    assert "as=PartialObjectMetadata" in server.requests[0].headers["Accept"]


async def test_clock_of_the_server_is_known(fake: Fake) -> None:
    """How far our clock is ahead follows from a response's time; a malformed time changes nothing."""
    server, api = fake
    assert api.ahead_seconds == 0.0
    an_hour_ago = format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)
    server.add("list", answer({}, headers={"Date": an_hour_ago}), answer({}, headers={"Date": "yesterday"}))
    await api.get(PATH)
    assert 3599 <= api.ahead_seconds <= 3660
    await api.get(PATH)
    assert 3599 <= api.guarded(lambda: 1.0).ahead_seconds <= 3660


async def test_refusal_carries_the_reason(fake: Fake) -> None:
    """A refusal names status, reason and the server's sentence."""
    server, api = fake
    server.add("list", refused(404, "NotFound", 'pods "a" not found'))
    server.add("POST", refused(409, "AlreadyExists", "it exists"))
    with pytest.raises(ApiError, match=r'^pods "a" not found \(NotFound, HTTP 404\)$') as missing:
        await api.get(f"{PATH}/a")
    with pytest.raises(ApiError) as conflict:
        await api.create(PATH, {})
    assert (missing.value.not_found, missing.value.conflict) == (True, False)
    assert (conflict.value.not_found, conflict.value.conflict) == (False, True)


@pytest.mark.parametrize("body", ["plain words", "[]", "", "{}"])
async def test_refusal_without_status_object(fake: Fake, body: str) -> None:
    """A refusal by a proxy in between is reported too, whatever its body."""
    server, api = fake
    server.add("list", answer(body, status=403))
    with pytest.raises(ApiError) as caught:
        await api.get(PATH)
    assert caught.value.status == 403


@pytest.mark.parametrize(("status", "header", "after"), [(429, "3", 3), (503, None, None), (500, "x", None)])
async def test_overload_is_unavailable(fake: Fake, status: int, header: str | None, after: float | None) -> None:
    """429 and 5xx are transient states, with the server's wait."""
    server, api = fake
    server.add("list", refused(status, "", "busy", **({"Retry-After": header} if header else {})))
    with pytest.raises(ApiUnavailable, match=f"answers {status}: busy") as caught:
        await api.get(PATH)
    assert (caught.value.status, caught.value.retry_after) == (status, after)


async def test_connection_refused(unused_tcp_port: int) -> None:
    """A server that is not there is unavailable, in one line with its address."""
    async with ApiServer(connection(f"http://127.0.0.1:{unused_tcp_port}"), user_agent="test") as api:
        with pytest.raises(ApiUnavailable, match=f"127.0.0.1:{unused_tcp_port} cannot be reached") as caught:
            await api.get(PATH)
    assert caught.value.status is None
    assert str(caught.value).endswith("cannot be reached: Connection refused")


async def test_no_tls_where_expected(fake: Fake) -> None:
    """A server without TLS is unavailable, with the handshake's error in the same words each time."""
    url = fake[1].connection.server.replace("http://", "https://")
    said = set()
    for _ in range(2):
        async with ApiServer(Connection(url, ssl.create_default_context(), lambda: None), user_agent="test") as api:
            with pytest.raises(ApiUnavailable, match=r"cannot be reached: .*SSL") as caught:
                await api.get(PATH)
        said.add(str(caught.value))
    assert len(said) == 1


async def test_silent_server_times_out() -> None:
    async with serving() as (_, api), ApiServer(api.connection, user_agent="test", timeout_seconds=0.05) as hasty:
        with pytest.raises(ApiUnavailable, match="no response in time"):
            await hasty.get(PATH)


async def test_cut_answer_is_unavailable(fake: Fake) -> None:
    server, api = fake

    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"items":')
        assert request.transport is not None
        request.transport.close()
        return response

    server.add("list", cut)
    with pytest.raises(ApiUnavailable, match="cannot be reached"):
        await api.get(PATH)


@pytest.mark.parametrize("body", ["<html>", "[]", "3", ""])
async def test_other_answers_are_named(fake: Fake, body: str) -> None:
    """A response that is no JSON object is reported as such."""
    server, api = fake
    server.add("list", answer(body))
    with pytest.raises(ApiUnavailable, match="does not behave like an API server"):
        await api.get(PATH)


async def test_redirect_is_not_followed(fake: Fake) -> None:
    """A redirect is not followed: the token would go along."""
    server, api = fake
    server.add("list", answer("", status=302, headers={"Location": "/elsewhere"}))
    with pytest.raises(ApiUnavailable, match="does not behave like an API server"):
        await api.get(PATH)
    assert len(server.requests) == 1


async def test_rejected_token_is_renewed_once(fake: Fake) -> None:
    """A 401 forgets the token and tries once with a fresh one; a second 401 is an error."""
    server, api = fake
    tokens = ["Bearer old"]
    renewing = Connection(
        server=api.connection.server,
        tls=None,
        authorization=lambda: tokens[-1],
        forget_authorization=lambda: tokens.append("Bearer new"),
    )
    server.add("list", refused(401), answer({"ok": True}), refused(401), refused(401))
    async with ApiServer(renewing, user_agent="headroom-test") as other:
        assert await other.get(PATH) == {"ok": True}
        with pytest.raises(ApiError, match="the login of this client is not accepted, it may have expired"):
            await other.get(PATH)
    assert [request.headers["Authorization"] for request in server.requests[:2]] == ["Bearer old", "Bearer new"]
    assert server.requests[0].headers["User-Agent"] == "headroom-test"


async def test_unknown_kind_is_named(fake: Fake) -> None:
    """A path that the server does not know is named, with what may be missing."""
    server, api = fake
    server.add("list", answer("404 page not found", status=404))
    with pytest.raises(ApiError, match=f"{PATH}: is the definition .CRD. of that kind installed") as caught:
        await api.get(PATH)
    assert caught.value.not_found


async def test_proxy_is_ignored_on_loopback(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in the environment is for the world outside, not for this machine."""
    server, api = fake
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    server.add("list", answer({"ok": True}))
    async with ApiServer(api.connection, user_agent="test") as direct:
        assert await direct.get(PATH) == {"ok": True}


async def test_proxy_of_the_environment_has_exceptions(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go through the proxy of the environment, unless NO_PROXY names the server, also by a range."""
    server, api = fake
    proxy = api.connection.server.replace("http://", "http://user:p%40ss@")
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.setenv("NO_PROXY", ".svc,10.0.0.0/8,fd00::/8")
    server.add("list", answer({"ok": True}), answer({"ok": True}))
    async with ApiServer(connection("http://192.0.2.1:6443"), user_agent="test") as remote:
        assert await remote.get(PATH) == {"ok": True}
    assert server.requests[-1].headers["Host"] == "192.0.2.1:6443"
    assert server.requests[-1].headers["Proxy-Authorization"] == "Basic dXNlcjpwQHNz"
    login = connection("http://10.96.0.1:443")
    assert login.proxy_in_use is None
    # A proxy of the kubeconfig is used for its server, whatever NO_PROXY names.
    async with ApiServer(replace(login, proxy=proxy), user_agent="test") as remote:
        assert await remote.get(PATH) == {"ok": True}


async def test_guard_stops_writes(fake: Fake) -> None:
    """A replica that may not write still reads; a write is not sent, or ends in the time left."""
    server, api = fake
    left = [float("inf")]

    def may_write_for() -> float:
        if left[0] <= 0:
            raise ApiUnavailable("not yours")
        return left[0]

    guarded = api.guarded(may_write_for)
    server.add("PATCH", answer({"metadata": {}}))
    assert await guarded.patch(PATH, {}) == {"metadata": {}}
    left[0] = 0.01  # nothing answers
    with pytest.raises(ApiUnavailable, match="no response in time"):
        await guarded.patch(PATH, {})
    left[0] = 0.0
    before = len(server.requests)
    for write in (guarded.patch(PATH, {}), guarded.create(PATH, {}), guarded.replace(PATH, {}), guarded.delete(PATH)):
        with pytest.raises(ApiUnavailable, match="not yours"):
            await write
    granted = [float("inf")]

    def lost_meanwhile() -> float:
        return granted.pop() if granted else may_write_for()

    with pytest.raises(ApiUnavailable, match="not yours"):
        await api.guarded(lost_meanwhile).patch(PATH, {})
    assert len(server.requests) == before
    server.add("list", listed("1", "a"))
    assert len((await guarded.list(PATH))[0]) == 1
    assert guarded.connection is api.connection


async def test_pages_are_reported(fake: Fake) -> None:
    """Each page is reported with the objects so far, and the total if the server states it; the last is complete."""
    texts: list[tuple[str, int, int | None]] = []
    server, api = fake
    server.add(
        "list",
        answer({"items": [{}, {}], "metadata": {"continue": "x", "remainingItemCount": 3}}),
        answer({"items": [{}, {}], "metadata": {"continue": "y"}}),
        answer({"items": [{}], "metadata": {"resourceVersion": "1"}}),
    )
    api.on_page = lambda path, done, total: texts.append((path, done, total))
    items, _ = await api.list("/list")
    assert len(items) == 5
    assert texts == [("/list", 2, 5), ("/list", 4, None), ("/list", 5, 5)]
