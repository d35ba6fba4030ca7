"""Denials of an account whose rights are deleted while it runs."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.e2e import rights


def _line(second: float, user: str, verb: str, resource: str, name: str, code: int) -> str:
    event = {
        "requestReceivedTimestamp": f"2026-01-01T00:00:{second:09.6f}Z",
        "stageTimestamp": f"2026-01-01T00:00:{second:09.6f}Z",
        "verb": verb,
        "user": {"username": user},
        "objectRef": {"resource": resource, "name": name},
        "responseStatus": {"code": code},
    }
    return json.dumps(event, separators=(",", ":"))


def test_refusals_after_the_rights_were_deleted(tmp_path: Path) -> None:
    """Refused before: it lacks a right. Refused once helm has deleted its binding: it ends."""
    agent = "system:serviceaccount:ns:headroom-agent"
    log = tmp_path / "audit.log"
    lines = [
        _line(1, agent, "get", "nodemetrics", "early", 403),
        _line(2, "admin", "delete", "clusterrolebindings", "headroom-agent", 200),
        _line(14, agent, "get", "nodemetrics", "installed again", 403),
        _line(30, "admin", "delete", "rolebindings", "headroom-agent-events", 200),
        _line(34, "admin", "delete", "clusterrolebindings", "headroom-agent", 200),
        _line(35, "admin", "delete", "serviceaccounts", "headroom-agent", 200),
        _line(29.99, agent, "get", "nodemetrics", "meanwhile", 403),
        _line(31, agent, "get", "nodemetrics", "late", 401),
        _line(31.5, agent, "get", "nodemetrics", "allowed", 200),
    ]
    log.write_text("\n".join(lines) + "\n")
    cluster = cast("Any", SimpleNamespace(control_plane=SimpleNamespace(audit_log=log)))
    requested = rights.requests(cluster, "ns")
    assert [entry.name for entry in requested["headroom-agent"]] == ["early", "installed again", "allowed"]
    assert len(rights.refused(requested)) == 2
