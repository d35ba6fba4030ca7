"""Whatever the API holds is untrusted: no text of any object controls a terminal or forges a line."""

import copy
import json
import re
import sys
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from crds.shadow_accounts import name_of
from headroom.kube import paths
from headroom.kube.connection import Connection
from kubectl_headroom import live
from kubectl_headroom.__main__ import main
from kubectl_headroom.explain.command import show
from tests.kubectl_headroom import recording
from tests.kubectl_headroom.quota_site import put, story
from tests.support.api import FakeApi

FORGED = "FORGED"
HOSTILE = f"\x1b]0;title\x07\x1b[2J\r\n{FORGED}\u2028{FORGED}\x85{FORGED}\u202e\x9b31m\x7f\ud800\x00"
NAMESPACE = "headroom-system"
COMMANDS = (
    "top nodes",
    "top pods -A",
    "explain node web-1",
    "explain pod search -n shop",
    "explain pod b2 -n b",
    "explain quota qb -n b",
    "config diff {file}",
    "quota",
    "quota verify",
    "shadow",
    "simulate pod b2 -n b",
    "doctor",
)
# API servers accept no such text there: identities and quantities.
_CHECKED = {
    *("name", "namespace", "nodeName", "uid", "kind", "apiVersion", "resourceVersion", "cpu", "memory", "pods"),
    *("nvidia.com/gpu", "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory", "ephemeral-storage", "hugepages-2Mi"),
}


def _cluster() -> FakeApi:
    api = FakeApi()
    api.connection = Connection("http://nowhere", None, lambda: None)
    recording.put_recorded(api)
    for item in story():
        if "allocatable" in item.get("status", {}):
            api.put(paths.node(item["metadata"]["name"]), item)
        else:
            put(api, item)
        if item["metadata"]["name"] == "qb":
            api.put("/apis/scheduling.x-k8s.io/v1alpha1/namespaces/b/elasticquotas/qb", item)
    uid = api.objects[paths.node("web-1")]["metadata"].get("uid", "")
    account = {"nodeUID": uid, "since": f"2026-11-20T12:01:00Z{HOSTILE}", "mean": {"cpu": "1", "memory": "1"}}
    accounts = {"metadata": {"name": name_of("web-1")}, "data": {"web-1": json.dumps(account)}}
    api.put(paths.config_map(NAMESPACE, name_of("web-1")), accounts)
    return api


def _leaves(value: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        for key, each in value.items():
            yield from ([key] if isinstance(each, str) and key not in _CHECKED else _leaves(each))
    elif isinstance(value, list):
        for entry in value:
            yield from _leaves(entry)


def _spoilt(value: Any, fields: Collection[str]) -> Any:  # noqa: ANN401 - JSON
    """The object with something after the text of these fields."""
    if isinstance(value, dict):
        return {
            key: f"{each}{HOSTILE}" if isinstance(each, str) and key in fields else _spoilt(each, fields)
            for key, each in value.items()
        }
    return [_spoilt(entry, fields) for entry in value] if isinstance(value, list) else value


FIELDS = sorted({field for obj in _cluster().objects.values() for field in _leaves(obj)})


def _expect_sound(text: str, words: str) -> None:
    unsound = {char for char in text if not char.isprintable() and char != "\n"}
    assert not unsound, f"{words}: {unsound}"
    assert not [line for line in text.split("\n") if line.lstrip(" -").startswith(FORGED)], words


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("output", ["wide", "json", "yaml"])
def test_no_field_reaches_the_terminal(
    command: str,
    output: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Any,  # noqa: ANN401
) -> None:
    """Control characters, line breaks and marks of direction in any field are escaped by every command."""
    file = tmp_path / "config.json"
    file.write_text('{"enable": true, "midUnallocatedPercent": 50}')
    sound = _cluster()
    result: list[FakeApi] = []

    @asynccontextmanager
    async def reached(_login: Any) -> AsyncIterator[FakeApi]:  # noqa: ANN401
        yield result[-1]

    monkeypatch.setattr(live, "cluster", reached)
    words = [*command.format(file=file).split(), "-o", output]
    # All at once, and some at a time: what refuses an object as a whole hides the rest of it.
    for fields in (FIELDS, *((FIELDS[start::8]) for start in range(8 if output == "wide" else 0))):
        api = copy.copy(sound)
        api.objects = {path: _spoilt(obj, fields) for path, obj in sound.objects.items()}
        result.append(api)
        main(words)
        said = capsys.readouterr()
        _expect_sound(said.out, f"{command} -o {output}, {fields}")
        _expect_sound(said.err, f"{command} -o {output}, {fields}")


def test_hostile_texts_are_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only text for people was changed: the messages of conditions, on their own lines."""
    metric = recording.named("nodeMetrics", "web-1")
    metric["status"]["conditions"] = _spoilt(metric["status"]["conditions"], {"message", "reason"})
    show(recording.explained("web-1", node_metric=metric))
    said = capsys.readouterr().out
    _expect_sound(said, "explain node")
    assert "\\x1b]0;title" in said
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    show(recording.explained("web-1", node_metric=metric))
    coloured = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)  # our own colours
    _expect_sound(coloured, "explain node in colours")


@pytest.mark.parametrize(
    "words", [["top", "nodes", HOSTILE], [HOSTILE], ["explain", "node", "web-1", "--set", HOSTILE]]
)
def test_foreign_names_are_refused_on_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Words of the command line may come from a cluster, by a pipe: an error quotes them, and no more."""
    with pytest.raises(SystemExit):
        sys.exit(main(words))
    said = capsys.readouterr()
    _expect_sound(said.out + said.err, words[0])
