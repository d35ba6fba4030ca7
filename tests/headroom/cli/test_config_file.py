import io
import json
from pathlib import Path

import pytest
import yaml

from headroom.cli.config import file as config_file
from headroom.cli.errors import USAGE, CommandError

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
        # the chart's own template leaves other ConfigMaps beside it
        yaml.safe_dump_all([{**CONFIG_MAP, "data": {"other": "x"}}, CONFIG_MAP]),
    ],
)
def test_manifest_is_opened(manifest: str) -> None:
    """A ConfigMap's manifest, in YAML or JSON, alone or among others, yields the text in it and its name."""
    assert config_file.parse(manifest, "f") == config_file.ConfigFile("f", TEXT, "slo-controller-config")


@pytest.mark.parametrize(
    "text", [TEXT, '{"enable": tru', "", "enable: true", "[]", "a: [", "a: 2026-13-45", "[" * 2000]
)
def test_other_text_is_the_config(text: str) -> None:
    """What is no manifest is the config itself, however wrong: the validator says what is wrong with it."""
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
