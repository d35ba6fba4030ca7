import json
from typing import Any

import pytest

from crds.shadow_accounts import read, written
from headroom.kube import ApiError, ApiServer
from headroom.kube.server_clock import ServerClock
from kubectl_headroom.shadow import command as shadow
from kubectl_headroom.shadow.accounts import COLUMNS, accounts, as_json, cells, share, total
from kubectl_headroom.table import plain
from tests.kubectl_headroom.recording import NOW, golden

GI = 2**30
Json = dict[str, Any]


def kept(name: str, **account: object) -> Json:
    made: Json = {
        "since": "2026-11-20T12:01:00Z",
        "time": "2026-11-21T11:56:00Z",
        "observedSeconds": 80_000,
        "offered": {"cpu": "6500m", "memory": str(20 * GI)},
        "mean": {"cpu": "6100m", "memory": str(19 * GI)},
        "tooMuchSeconds": {"cpu": 1200, "memory": 0},
        "worstExcess": {"cpu": "900m", "memory": "0"},
        **account,
    }
    account = {"nodeUID": f"uid-{name}", **{key: value for key, value in made.items() if value}}
    return {"data": {name: json.dumps(account)}}


KEPT = [
    kept("web-2", observedSeconds=0, mean={"cpu": "0m", "memory": "0"}, tooMuchSeconds=None, offered=None),
    kept("web-1"),
    kept("web-3", tooMuchSeconds={"cpu": 0, "memory": 7}, worstExcess={"cpu": "0m", "memory": str(2 * GI)}),
    {"metadata": {"name": "empty"}},
    None,
    {"data": {"bad": '{"nodeUID": "uid-bad", "since": 7}', "web-4": "{", "gone": "[]"}},
    kept("again"),
]
UIDS = {name: f"uid-{name}" for name in ("web-1", "web-2", "web-3", "web-4", "bad")} | {"again": "uid-of-another"}


def test_shadow_text() -> None:
    """Nodes by name, the total; those without an account, gone, or another machine of that name, are left out."""
    result = accounts(KEPT, UIDS, NOW)
    rows = [cells(entry) for entry in [*result, total(result)]]
    assert plain(COLUMNS, rows) == golden("shadow.txt")


def test_made_accounts_are_real() -> None:
    made = read(KEPT[1])["web-1"]
    assert made is not None
    assert read({"data": {"web-1": written(made)}}) == {"web-1": made}


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 100, "0%"), (50, 100, "50.0%"), (1, 1000, "0.1%"), (1, 100_000, "<0.1%"), (0, 0, "-"), (None, 9, "-")],
)
def test_share_of_time(part: int | None, whole: int, text: str) -> None:
    """A share has one decimal, and something is never shown as nothing."""
    assert share(part, whole) == text


def test_json_has_units() -> None:
    unseen, observed = as_json(accounts(KEPT, UIDS, NOW)[1]), as_json(accounts(KEPT, UIDS, NOW)[0])
    assert unseen["tooMuchPercent"] == {"cpu": None, "memory": None}
    assert unseen["offered"] == {"cpuMilli": None, "memoryBytes": None}
    assert observed["mean"] == {"cpuMilli": 6100, "memoryBytes": 19 * GI}
    assert observed["tooMuchPercent"] == {"cpu": 1.5, "memory": 0.0}
    assert observed["writtenAgeSeconds"] == 300.0


class Recorded:
    server_time = ServerClock()

    async def list(self, path: str, params: Any, keep: Any) -> tuple[list[Any], str]:  # noqa: ANN401
        assert path.endswith("/nodes")
        assert params in ({}, {"labelSelector": "pool=web"})
        names = ["web-3"] if params else UIDS
        return [keep({"metadata": {"name": name, "uid": UIDS[name]}}) for name in names], "1"

    async def get(self, path: str) -> Json:
        number = int(path.removeprefix("/api/v1/namespaces/hr/configmaps/headroom-shadow-"))
        if number >= len(KEPT) or KEPT[number] is None:
            raise ApiError(404, "NotFound", path)
        return dict(KEPT[number] or {})


@pytest.fixture
def api() -> ApiServer:
    result: Any = Recorded()
    return result  # type: ignore[no-any-return]


async def test_selector_chooses_nodes(api: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    await shadow.nodes(api, "hr", "pool=web", "json")
    shown = json.loads(capsys.readouterr().out)
    assert [node["node"] for node in shown["items"]] == ["web-3"]
    assert shown["total"]["worstExcess"] == {"cpuMilli": 0, "memoryBytes": 2 * GI}
    await shadow.nodes(api, "hr", None, "table")
    assert "all 3" in capsys.readouterr().out
    await shadow.nodes(api, "hr", None, "table", headers=False)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["web-1", "web-2", "web-3"]


async def test_no_node_in_shadow_mode(
    api: ApiServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a node in shadow mode there are no resources; a program gets an empty list."""
    monkeypatch.setattr("tests.kubectl_headroom.test_shadow.KEPT", [])
    await shadow.nodes(api, "hr", "pool=web", "table")
    assert capsys.readouterr().err == "No resources found\n"
    await shadow.nodes(api, "hr", None, "json")
    shown = json.loads(capsys.readouterr().out)
    assert (shown["kind"], shown["items"], shown["total"]) == ("ShadowAccountList", [], None)
