"""`explain node -f FILE`: objects of a file in place of a cluster."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_headroom import arguments
from kubectl_headroom.__main__ import main
from kubectl_headroom.errors import FAILED, USAGE, CommandError
from kubectl_headroom.explain import from_file
from tests.kubectl_headroom.recording import NOW, explained, named, recorded

Json = dict[str, Any]


def kind(name: str, item: Json) -> Json:
    return {**item, "kind": name}


METRIC = kind("NodeMetric", named("nodeMetrics", "web-1"))
NODE = kind("Node", named("nodes", "web-1"))
CONFIG = kind("ConfigMap", recorded("configMap"))
PODS = [kind("Pod", pod) for pod in recorded("pods")]


@pytest.fixture(autouse=True)
def _no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kubeconfig is read: there is none."""
    monkeypatch.setenv("KUBECONFIG", "/nonexistent/kubeconfig")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "objects.yaml"


def answer(path: Path, capsys: pytest.CaptureFixture[str], words: str = "", *items: Json) -> Json:
    """The JSON of a command on a file with these objects."""
    path.write_text(yaml.safe_dump_all(items))
    options = arguments.parser().parse_args(["explain", "node", "-f", str(path), *words.split(), "-o", "json"])
    assert from_file.run(options, lambda: NOW) == 0
    result: Json = json.loads(capsys.readouterr().out)
    return result


def refused(path: Path, words: str, *items: Json) -> tuple[str, int]:
    path.write_text(yaml.safe_dump_all(items))
    with pytest.raises(CommandError) as error:
        from_file.run(arguments.parser().parse_args(["explain", *words.split(), "-f", str(path)]), lambda: NOW)
    return str(error.value).replace(str(path), "FILE"), error.value.exit_code


def test_file_gives_the_numbers_of_the_cluster(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With every object in the file each number is that of the live command, and nothing is assumed."""
    shown = answer(path, capsys, "", METRIC, NODE, CONFIG, *PODS)
    live = explained("web-1")
    assert shown["calculated"] == {
        "cpuMilli": live.result.calculated.cpu,
        "memoryBytes": live.result.calculated.memory,
    }
    assert [note for note in shown["notes"] if note.startswith(("Missing", "What if"))] == []
    whole = {"kind": "List", "apiVersion": "v1", "items": [METRIC, NODE, CONFIG, *PODS]}
    assert answer(path, capsys, "web-1", whole) == shown


def test_report_alone_states_each_assumption(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without Node, Pods and ConfigMap the output says which is missing, and enables the default strategy."""
    metric = kind("NodeMetric", named("nodeMetrics", "web-1"))
    metric["status"].setdefault("prediction", {})["reclaimable"] = {
        "requested": {"cpu": "9", "memory": "40Gi"},
        "slack": {"cpu": "6500m", "memory": "0"},
    }
    shown = answer(path, capsys, "", metric)
    notes = "\n".join(shown["notes"])
    assert "has no colocation ConfigMap, so the default strategy applies, with `enable: true`" in notes
    assert "has no Node web-1: allocatable cpu 15500m is assumed" in notes
    assert "that of memory is unknown" in notes
    assert "has no Pods of web-1, so their requests count as 0" in notes
    assert shown["strategy"]["enable"] is True
    assert shown["next"] == []
    assert shown["degraded"]["reason"] == "NodeNotReady"
    metric["status"]["prediction"]["reclaimable"]["slack"]["memory"] = "22Gi"
    shown = answer(path, capsys, "", metric)
    assert "allocatable cpu 15500m and memory 62Gi is assumed" in "\n".join(shown["notes"])
    assert shown["calculated"]["cpuMilli"] > 0
    foreign = kind("NodeMetric", named("nodeMetrics", "web-1"))
    foreign["status"].pop("prediction", None)  # as of koordlet
    notes = "\n".join(answer(path, capsys, "", foreign)["notes"])
    assert "its allocatable is unknown, and the report does not imply it" in notes
    assert "has no NodeMetric web-1" in "\n".join(answer(path, capsys, "", NODE)["notes"])


def test_lists_of_the_api_server_are_read(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`kubectl get --raw` prints a NodeMetricList with items that have no kind."""
    metric = {key: value for key, value in METRIC.items() if key != "kind"}
    shown = answer(path, capsys, "", {"kind": "NodeMetricList", "items": [metric]}, NODE)
    assert shown["reportAgeSeconds"] is not None


def test_settings_are_tried_on_a_file(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = answer(path, capsys, "--set midUnallocatedPercent=50", METRIC, NODE)
    assert shown["whatIf"]
    assert shown["strategy"]["midUnallocatedPercent"] == 50


def test_old_report_expires_in_a_file(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of yesterday publishes nothing: ages count from now."""
    path.write_text(yaml.safe_dump_all([METRIC, NODE]))
    options = arguments.parser().parse_args(["explain", "node", "-f", str(path), "-o", "json"])
    from_file.run(options, lambda: NOW + 86400)
    assert json.loads(capsys.readouterr().out)["calculated"] == {"cpuMilli": 0, "memoryBytes": 0}


@pytest.mark.parametrize(
    "line", ["node -f - -o yaml", "node -o yaml -f -", "node web-1 -f - -o yaml", "node -f - -o yaml web-1"]
)
def test_standard_input_is_read(line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The name may be omitted, or be anywhere; times without quotes are texts, as in Kubernetes."""
    text = yaml.safe_dump(METRIC).replace("'2026-11-21T12:00:00Z'", "2026-11-21T12:00:00Z")
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main(["explain", *line.split()]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["node"] == "web-1"
    assert shown["reportAgeSeconds"] > 0


def changed(item: Json, **fields: Any) -> Json:  # noqa: ANN401
    return {**item, **fields}


@pytest.mark.parametrize(
    ("words", "items", "message", "code"),
    [
        ("node", [], "FILE holds nothing, and no NodeMetric or Node: add one.", USAGE),
        ("node", [kind("Pod", PODS[0])], "FILE holds Pod, and no NodeMetric or Node: add one.", USAGE),
        ("node web-9", [METRIC], "FILE has no node 'web-9'. Did you mean web-1?", FAILED),
        ("node", [METRIC, METRIC], "FILE has NodeMetric web-1 twice: leave one.", USAGE),
        ("node", [changed(METRIC, metadata={})], "FILE: NodeMetric: metadata.name is missing", USAGE),
        ("node", [changed(METRIC, metadata=5)], "FILE: NodeMetric: metadata: must be", USAGE),
        ("node", [changed(NODE, status={"allocatable": 5})], "FILE: Node: status.allocatable: must be", USAGE),
        ("node", [METRIC, changed(PODS[0], spec=5)], "spec or status is malformed", USAGE),
        ("node", [METRIC, CONFIG, changed(CONFIG, data={})], "FILE has 2 colocation ConfigMaps: select one", USAGE),
        ("node", [METRIC, changed(CONFIG, data={"colocation-config": {}})], "must be a text with JSON in it", USAGE),
        ("node", [METRIC, changed(CONFIG, data=True)], "data must be an object", USAGE),
        ("node", [METRIC, changed(CONFIG, metadata={"managedFields": [1]})], "managedFields must be a list", USAGE),
        (
            "node",
            [changed(METRIC, kind=[])],
            "FILE holds an object without kind, and no NodeMetric or Node: add one.",
            USAGE,
        ),
        ("node", [kind("Node", node) for node in recorded("nodes")], "FILE has 3 nodes (web-1, web-2, web-3)", USAGE),
        ("pod a", [METRIC], "-f reads a file for explain node, not for explain pod", USAGE),
        ("node -w", [METRIC], "--watch repeats requests to a cluster", USAGE),
    ],
)
def test_refusals_name_the_way_out(path: Path, words: str, items: list[Json], message: str, code: int) -> None:
    shown, exit_code = refused(path, words, *items)
    assert message in shown
    assert exit_code == code


def test_standard_input_is_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "node", "-f", "-", "--config", "-"]) == USAGE
    assert "Standard input can be read once" in capsys.readouterr().err
