import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from kubectl_headroom import output as outputs
from kubectl_headroom.errors import USAGE, CommandError
from kubectl_headroom.explain.command import show, trial
from kubectl_headroom.explain.what_if import what_if
from manager.mid.explanation import document as explain_json
from manager.mid.explanation.explanation import Explanation
from manager.mid.explanation.findings import agent_changes, findings
from tests.kubectl_headroom.recording import explained, golden


def text(explanation: Explanation) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        show(explanation)
    return out.getvalue()


def test_setting_changes_the_numbers() -> None:
    """A tried setting is used by the formula, and its source is shown as a trial."""
    result = explained("web-1", "midUnallocatedPercent=20")
    assert result.result.calculated.cpu == 4000 + 6000 * 20 // 100
    assert result.strategy.sources["midUnallocatedPercent"] == "--set"
    assert result.strategy.sources["midCPUThresholdPercent"] == "nodeConfigs[0] web"
    assert result.before is not None
    assert result.before.result.calculated.cpu == 7000


def test_what_if_text() -> None:
    """The whole text of a trial: its title, both states, and the unknown parts."""
    result = explained("web-1", "midUnallocatedPercent=20", "nodePredictPolicy.safetyMarginPercent=20")
    assert text(result) == golden("explain_what_if.txt")


def test_set_wins_over_all_layers() -> None:
    """A setting that is tried wins over the node's labels and annotations too."""
    labelled = explained("web-2", "midStaticCPUReservedPercent=30", "midReclaimMode=static")
    assert labelled.strategy.strategy.mid_static_cpu_reserved_percent == 30


@pytest.mark.parametrize(
    ("settings", "path", "value"),
    [
        (["midEviction.mode=on"], "midEviction.mode", "on"),
        (["nodePredictPolicy.safetyMarginPercent=0"], "nodePredictPolicy.safetyMarginPercent", 0),
        (['nodePredictPolicy.parameters={"windowDays": 4}'], "nodePredictPolicy.parameters", {"windowDays": 4}),
        (["nodePredictPolicy.parameters.windowDays=4"], "nodePredictPolicy.parameters", {"windowDays": 4}),
        (["enable=false"], "enable", False),
        (["resourceDiffThreshold=0.2"], "resourceDiffThreshold", 0.2),
        (["midPolicy=design", "midPolicy=designMixed"], "midPolicy", "designMixed"),  # the last one counts
        (['mode="shadow"'], "mode", "shadow"),
    ],
)
def test_values_and_paths(settings: list[str], path: str, value: object) -> None:
    """Values are JSON or plain text, and paths lead into the parts of a strategy."""
    result = explained("web-1", *settings)
    assert result.strategy.sources[path] == "--set"
    data = explain_json.as_json(result)["strategy"]
    for name in path.split("."):
        data = data[name]
    assert data == value


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["midUnallocatedPercent=120"], "--set midUnallocatedPercent: must be 0 to 100, got 120"),
        (["midUnallocatedPercnt=20"], "midUnallocatedPercnt: unknown field: did you mean midUnallocatedPercent?"),
        (["nodePredictPolicy.safetyMargin=2"], "nodePredictPolicy.safetyMargin: unknown field"),
        (["surely.not=1"], "surely: unknown field: docs/configuration.md lists"),
        (["midPolicy=best"], 'midPolicy: must be one of "reclaimable", "design", "designMixed", got "best"'),
        (["enable=yes"], 'enable: must be true or false, got "yes"'),
        (["midUnallocatedPercent=NaN"], "NaN"),
        (["midUnallocatedPercent"], "must be a setting and its value, such as midUnallocatedPercent=20"),
        (["=20"], "must be a setting and its value"),
        (["midEviction..mode=on"], "must be a setting and its value"),
        (["midEviction=1", "midEviction.mode=on"], "midEviction is given as a whole already"),
        (["mode=null"], "null sets nothing"),
        (["nodeConfigs=[]"], "nodeConfigs: unknown field"),
    ],
)
def test_refused_settings(settings: list[str], says: str) -> None:
    """A setting that the manager's validator refuses is refused in its words; a typo never passes for a no."""
    with pytest.raises(CommandError) as refused:
        what_if(settings, None)
    assert says in str(refused.value)
    assert refused.value.exit_code == USAGE


def test_every_fault_is_named() -> None:
    with pytest.raises(CommandError) as refused:
        what_if(["midUnallocatedPercent=120", "midPolicy=best"], None)
    assert "midUnallocatedPercent" in str(refused.value)
    assert "midPolicy" in str(refused.value)


def test_other_case_is_reported() -> None:
    result = explained("web-1", "midunallocatedpercent=20")
    assert result.result.calculated.cpu == 5200
    assert any(
        "--set midUnallocatedPercent: read as" in note or "write it like that" in note for note in findings(result)
    )


def test_config_in_place_of_the_live_one() -> None:
    tried = '{"enable": true, "nodeConfigs": [{"name": "new", "nodeSelector": {}, "midUnallocatedPercent": 10}]}'
    result = explained("web-1", tried_config=tried)
    assert result.strategy.sources["midUnallocatedPercent"] == "nodeConfigs[0] new"
    assert result.result.calculated.cpu == 4600
    shown = text(result)
    assert "Node web-1, what if --config new.json: nothing in the cluster is changed" in shown
    assert "new.json (--config)" in shown


def test_config_and_settings_together() -> None:
    result = explained("web-1", "midUnallocatedPercent=0", tried_config='{"enable": true, "midUnallocatedPercent": 10}')
    assert result.result.calculated.cpu == 4000
    assert result.what_if is not None
    assert result.what_if.words == "--config new.json --set midUnallocatedPercent=0"


def test_refused_config_has_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "new.json"
    path.write_text('{"enabl": true, "degradeTimeMinutes": 0}')
    with pytest.raises(CommandError) as refused:
        trial([], str(path))
    assert "enabl: unknown field: did you mean enable?" in str(refused.value)
    assert "degradeTimeMinutes: must be 1 to 10080, got 0" in str(refused.value)


def test_nothing_tried() -> None:
    assert trial([], None) is None
    result = explained("web-1")
    assert explain_json.as_json(result)["whatIf"] is None
    assert "what if" not in text(result)


def test_disabled_node_tried_enabled() -> None:
    """A node's amounts under enabled colocation are shown beside none, and may be varied further."""
    result = explained("web-1", "enable=true", config='{"midUnallocatedPercent": 50}')
    assert result.before is not None
    assert result.before.result.calculated.cpu == 0
    assert result.result.calculated.cpu == 7000
    assert result.would_be is None


def test_agent_must_follow() -> None:
    """A changed prediction policy is said to change Reclaimable only when the agent has it; other changes are not."""
    assert agent_changes(explained("web-1", "midUnallocatedPercent=20")) == []
    result = explained("web-1", "nodePredictPolicy.model=sum-max", "metricReportIntervalSeconds=30")
    assert agent_changes(result) == [
        "metricCollectPolicy.reportIntervalSeconds",
        "predictPolicy.model",
    ]
    notes = [note for note in findings(result) if note.startswith("what if: ")]
    assert "which this command cannot calculate" in notes[0]
    assert "reportIntervalSeconds" in notes[1]


def test_json_of_what_if() -> None:
    data = json.loads(outputs.document(explain_json.as_json(explained("web-1", "midUnallocatedPercent=20")), "json"))
    assert data["whatIf"]["settings"] == ["midUnallocatedPercent=20"]
    assert data["whatIf"]["now"]["calculated"]["cpuMilli"] == 7000
    assert data["calculated"]["cpuMilli"] == 5200
    assert data["whatIf"]["agentMustFollow"] == []
