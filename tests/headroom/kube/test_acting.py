"""Acting as somebody else, and being told of the pages of a list."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from headroom.kube import LoginError, acts_as, connect
from tests.headroom.kube.fake import answer, serving


async def test_headers_go_with_each_request() -> None:
    """Whom to act as goes with each request, groups one header each."""
    async with serving() as (server, api):
        server.add("list", answer({}))
        api.acts_as = acts_as("jane", ["a", "b"])
        await api.get("/list")
    heads = server.requests[-1].headers
    assert heads.getall("Impersonate-User") == ["jane"]
    assert heads.getall("Impersonate-Group") == ["a", "b"]


def test_nobody_is_no_header() -> None:
    """Without a user nothing is sent; groups alone are refused, as API servers do."""
    assert acts_as(None) == ()
    with pytest.raises(LoginError, match="give --as NAME, too"):
        acts_as(None, ["a"])
    with pytest.raises(LoginError, match="one line of plain characters"):
        acts_as("jane\r\nX: y")


def _connected(folder: Path, **user: Any) -> Any:  # noqa: ANN401 - a connection
    file = folder / "config"
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t", **user}}],
    }
    file.write_text(yaml.safe_dump(config))
    return connect(str(file))


def test_kubeconfig_names_somebody(tmp_path: Path) -> None:
    """What a kubeconfig's user says about impersonation is taken as by kubectl, also when it is renewed."""
    said = {"as": "jane", "as-groups": ["a"], "as-uid": "7", "as-user-extra": {"example.com/team": ["x", "y"]}}
    found = _connected(tmp_path, **said)
    assert found.acts_as == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-example.com%2Fteam", "x"),
        ("Impersonate-Extra-example.com%2Fteam", "y"),
    )
    assert found.renewed().acts_as == found.acts_as
    for wrong in ({"as-groups": "a"}, {"as-user-extra": ["x"]}, {"as-user-extra": {"team": "x"}}):
        with pytest.raises(LoginError, match="as-groups must be a list, and as-user-extra a mapping of lists"):
            _connected(tmp_path, **{"as": "jane"}, **wrong)


async def test_pages_are_told() -> None:
    """Each page is told with how many there are so far, and in all as far as the server says; the last is complete."""
    told: list[tuple[str, int, int | None]] = []
    async with serving() as (server, api):
        server.add(
            "list",
            answer({"items": [{}, {}], "metadata": {"continue": "x", "remainingItemCount": 3}}),
            answer({"items": [{}, {}], "metadata": {"continue": "y"}}),
            answer({"items": [{}], "metadata": {"resourceVersion": "1"}}),
        )
        api.on_page = lambda path, done, total: told.append((path, done, total))
        items, _ = await api.list("/list")
    assert len(items) == 5
    assert told == [("/list", 2, 5), ("/list", 4, None), ("/list", 5, 5)]
