import io
import json
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from crds.names import ANNOTATION_COLOCATION_STRATEGY, LABEL_MID_STATIC_CPU_RATIO
from headroom.kube import ApiServer
from kubectl_headroom.__main__ import main
from kubectl_headroom.config import diff as config_diff
from kubectl_headroom.config import file as config_file
from kubectl_headroom.config.file import ConfigFile
from kubectl_headroom.errors import FAILED, UNAVAILABLE, USAGE, CommandError
from tests.support.api import FakeApi
from tests.support.objects import node

TEXT = '{"enable": true}'
CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "slo-controller-config"},
    "data": {"colocation-config": TEXT},
}
OTHER = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other"}}


@pytest.mark.parametrize(
    "manifest",
    [
        json.dumps(CONFIG_MAP),
        yaml.safe_dump(CONFIG_MAP),
        f"---\n{yaml.safe_dump(OTHER)}---\n{yaml.safe_dump(CONFIG_MAP)}",
        yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [OTHER, CONFIG_MAP]}),
        # the chart's own template has other ConfigMaps, too
        yaml.safe_dump_all([{**CONFIG_MAP, "data": {"other": "x"}}, CONFIG_MAP]),
    ],
)
def test_manifest_is_opened(manifest: str) -> None:
    """A ConfigMap's manifest, in YAML or JSON, alone or among others, yields the text in it and its name."""
    assert config_file.parse(manifest, "f") == config_file.ConfigFile(
        "f", TEXT, "slo-controller-config", ("colocation-config",)
    )


@pytest.mark.parametrize(
    "text", [TEXT, '{"enable": tru', "", "enable: true", "[]", "a: [", "a: 2026-13-45", "[" * 2000]
)
def test_other_text_is_the_config(text: str) -> None:
    """A file that is no manifest is the config itself; the validator names its errors."""
    assert config_file.parse(text, "f") == config_file.ConfigFile("f", text)


def test_config_map_without_key() -> None:
    """A ConfigMap without the key means the defaults, as in the cluster."""
    assert config_file.parse('{"kind": "ConfigMap", "metadata": {"name": "c"}}', "f").text is None


@pytest.mark.parametrize(
    ("documents", "says"),
    [
        ([OTHER], "f holds no ConfigMap, but Secret."),
        (
            [CONFIG_MAP, CONFIG_MAP],
            r"f holds 2 ConfigMaps \(slo-controller-config, slo-controller-config\): leave one.",
        ),
        ([{**CONFIG_MAP, "data": {"colocation-config": {"enable": True}}}], "must be a text with JSON in it"),
    ],
)
def test_unusable_manifest(documents: list[object], says: str) -> None:
    with pytest.raises(CommandError, match=says) as refused:
        config_file.parse(yaml.safe_dump_all(documents), "f")
    assert refused.value.exit_code == USAGE


def test_reads_file_and_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.json"
    path.write_text(TEXT)
    assert config_file.read(str(path)) == config_file.ConfigFile(str(path), TEXT)
    monkeypatch.setattr("sys.stdin", io.StringIO(TEXT))
    assert config_file.read("-") == config_file.ConfigFile("standard input", TEXT)


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    """A file that is not there, a directory and bytes that are no text are refused by name."""
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, why in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory"), (binary, "is not a text")):
        with pytest.raises(CommandError, match=why) as refused:
            config_file.read(str(path))
        assert str(path) in str(refused.value)


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
        (yaml.safe_dump({"kind": "ConfigMap", "data": {"colocation-cfg": "{}"}}), "accepted, with 2 warnings"),
    ],
)
def test_accepted(text: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An accepted config ends with 0, also in a manifest and from standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main(["config", "check", "-"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"standard input: {says}"


def test_bad_entry_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An error in one entry is rejected, too, with its consequence."""
    assert main(["config", "check", _file(tmp_path, BAD_ENTRY)]) == FAILED
    assert "would disable these entries of nodeConfigs alone" in capsys.readouterr().out


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", _file(tmp_path, BAD), "-o", "json"]) == FAILED
    result = json.loads(capsys.readouterr().out)
    assert result["accepted"] is False
    assert [error["path"] for error in result["errors"]] == ["enabl", "midCPUThresholdPercent"]
    assert [error["path"] for error in result["entryErrors"]] == ["nodeConfigs[0].mode"]
    assert result["warnings"] == [{"path": "other", "message": "unknown field: ignored"}]


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
    """`check` needs no cluster; `diff` without a login is one line and exit code 3."""
    path = _file(tmp_path, "{}")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert main(["config", "check", path]) == 0
    assert main(["config", "diff", path]) == UNAVAILABLE


MAPS = "/api/v1/namespaces/headroom-system/configmaps"
LIVE = '{"enable": true, "degradeTimeMinutes": 20}'
NEW = json.dumps(
    {
        "enable": True,
        "degradeTimeMinutes": 20,
        "nodeConfigs": [
            {"name": "gpu", "nodeSelector": {"matchLabels": {"gpu": "y"}}, "enable": False},
            {"name": "a", "nodeSelector": {"matchLabels": {"zone": "a"}}, "nodePredictPolicy": {"model": "sum-max"}},
        ],
    }
)


def _cluster(*nodes: dict[str, Any], text: str | None = LIVE, last_good: str | None = None) -> FakeApi:
    api = FakeApi()
    for item in nodes:
        api.put(f"/api/v1/nodes/{item['metadata']['name']}", item)
    for name, value in (("slo-controller-config", text), ("headroom-last-good-config", last_good)):
        if value is not None:
            api.put(f"{MAPS}/{name}", {"metadata": {"name": name}, "data": {"colocation-config": value}})
    return api


async def _diff(api: FakeApi, text: str, output: str = "table") -> int:
    file = ConfigFile("new.json", text)
    return await config_diff.run(cast("ApiServer", api), file, "headroom-system", "slo-controller-config", output)


async def test_equal_nodes_are_one_block(capsys: pytest.CaptureFixture[str]) -> None:
    """Thousands of nodes that change alike are one block with their number and some names; others have their own."""
    many = [node(f"a{i:04}", labels={"zone": "a", "kubernetes.io/hostname": f"a{i:04}"}) for i in range(3000)]
    both = node("both", labels={"zone": "a", "gpu": "y"})
    assert await _diff(_cluster(*many, both, node("plain")), NEW) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "new.json compared with ConfigMap headroom-system/slo-controller-config",
        "The strategy of 3001 of 3002 nodes would change:",
        "",
        "3000 nodes (a0000, a0001, a0002, a0003, a0004 and 2995 more):",
        "FIELD OLD FROM NEW FROM",
        "nodePredictPolicy.model coincidence default sum-max nodeConfigs[1] a",
        "nodePredictPolicy.safetyMarginPercent 0 default 10 default",
        "",
        "1 node (both):",
        "FIELD OLD FROM NEW FROM",
        "enable true cluster false nodeConfigs[0] gpu",
        "",
        "Nodes that match several entries:",
        "- nodeConfigs[1] a matches 1 node (both) too, but nodeConfigs[0] gpu comes first and applies there",
    ]


async def test_own_layers_of_nodes_stay(capsys: pytest.CaptureFixture[str]) -> None:
    """A value that a node's annotation or label sets does not change with the config."""
    annotated = node("own", annotations={ANNOTATION_COLOCATION_STRATEGY: '{"degradeTimeMinutes": 7}'})
    labelled = node("labelled", labels={LABEL_MID_STATIC_CPU_RATIO: "0.2"})
    text = '{"enable": true, "degradeTimeMinutes": 30, "midStaticCPUReservedPercent": 40}'
    assert await _diff(_cluster(annotated, labelled), text, "json") == 0
    result = json.loads(capsys.readouterr().out)
    changed = [(change["nodes"], [field["path"] for field in change["fields"]]) for change in result["changes"]]
    assert changed == [(["labelled"], ["degradeTimeMinutes"]), (["own"], ["midStaticCPUReservedPercent"])]
    assert result["changes"][0]["fields"][0] == {
        "path": "degradeTimeMinutes",
        "old": 20,
        "oldSource": "cluster",
        "new": 30,
        "newSource": "cluster",
    }


@pytest.mark.parametrize(
    ("text", "last_good", "says"),
    [
        (LIVE, None, "new.json compared with ConfigMap headroom-system/slo-controller-config"),
        (None, None, "new.json compared with the defaults: there is no ConfigMap headroom-system/slo-"),
        ("{", LIVE, "new.json compared with the last good one in force: ConfigMap headroom-system/slo-"),
        ("{", None, "new.json compared with the defaults in force: ConfigMap headroom-system/slo-"),
    ],
)
async def test_diff_compares_with_the_config_in_force(
    text: str | None, last_good: str | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is compared with the config in force, which may differ from the ConfigMap."""
    assert await _diff(_cluster(node("n1"), text=text, last_good=last_good), LIVE) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(says)
    same = LIVE in (text, last_good)
    assert lines[1].startswith(
        "The strategy of none of 1 node" if same else "The strategy of 1 of 1 node would change:"
    )


async def test_refused_text_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """A text that would be refused as a whole has no diff, but its errors, and exit code 1."""
    assert await _diff(_cluster(node("n1")), '{"enabl": true}') == FAILED
    assert "unknown field: did you mean enable?" in capsys.readouterr().out


async def test_excluded_nodes_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    virtual = node("virtual", labels={"type": "virtual-kubelet"})
    assert await _diff(_cluster(node("n1"), virtual), '{"enable": false}') == 0
    said = capsys.readouterr().out
    assert "Left out: 1 of 2 nodes" in said
    assert "1 node (n1):" in said
