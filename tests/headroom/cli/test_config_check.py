import io
import json
from pathlib import Path

import pytest
import yaml

from headroom.cli.__main__ import main
from headroom.cli.errors import FAILED, UNAVAILABLE, USAGE

BAD = json.dumps(
    {
        "enabl": True,
        "midCPUThresholdPercent": "50%",
        "nodeConfigs": [{"name": "gpu", "nodeSelector": {}, "mode": "shadows"}],
        "other": 1,
    }
)
BAD_ENTRY = '{"nodeConfigs": [{"name": "gpu", "nodeSelector": {}, "mode": "shadows"}]}'


def _file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "config"
    path.write_text(text)
    return str(path)


def test_everything_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every error and warning is printed at once, and a text that would be refused ends with 1."""
    path = _file(tmp_path, BAD)
    assert main(["config", "check", path]) == FAILED
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:1]] == [["LEVEL", "WHERE", "WHAT"]]
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "error enabl unknown field: did you mean enable?",
        'error midCPUThresholdPercent must be a whole number, got "50%": write 50',
        'error nodeConfigs[0].mode must be one of "active", "shadow", got "shadows": did you mean "shadow"?',
        "warning other unknown field: ignored",
        (
            f"{path}: refused: 3 errors and 1 warning; without the webhook the manager would keep the last good config "
            "in force"
        ),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"enable": true}', "accepted"),
        ('{"other": true}', "accepted, with 1 warning"),
        ("{}", "accepted"),
        (yaml.safe_dump({"kind": "ConfigMap", "data": {"colocation-config": '{"enable": true}'}}), "accepted"),
        (yaml.safe_dump({"kind": "ConfigMap", "data": {"colocation-cfg": "{}"}}), "accepted, with 1 warning"),
    ],
)
def test_accepted(text: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What would be accepted ends with 0, also in a manifest and from standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main(["config", "check", "-"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"standard input: {says}"


def test_bad_entry_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fault in one entry is refused as well, and what it would mean otherwise is said."""
    assert main(["config", "check", _file(tmp_path, BAD_ENTRY)]) == FAILED
    assert "would disable these entries of nodeConfigs alone" in capsys.readouterr().out


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", _file(tmp_path, BAD), "-o", "json"]) == FAILED
    found = json.loads(capsys.readouterr().out)
    assert found["accepted"] is False
    assert [each["path"] for each in found["errors"]] == ["enabl", "midCPUThresholdPercent"]
    assert [each["path"] for each in found["entryErrors"]] == ["nodeConfigs[0].mode"]
    assert found["warnings"] == [{"path": "other", "message": "unknown field: ignored"}]


@pytest.mark.parametrize(
    ("text", "says"),
    [(None, "cannot be read: No such file"), ("kind: Secret\n", "holds no ConfigMap, but Secret")],
)
def test_unusable_file(text: str | None, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there or holds something else is one line and exit code 2, for both commands."""
    path = str(tmp_path / "none") if text is None else _file(tmp_path, text)
    for action in ("check", "diff"):
        assert main(["config", action, path]) == USAGE
        said = capsys.readouterr()
        assert says in said.err
        assert (said.out, said.err.count("\n")) == ("", 1)


def test_check_needs_no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`check` asks no cluster; `diff` without a login is one line and exit code 3."""
    path = _file(tmp_path, "{}")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert main(["config", "check", path]) == 0
    assert main(["config", "diff", path]) == UNAVAILABLE
