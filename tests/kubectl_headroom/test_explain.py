import io
import json
import re
from contextlib import redirect_stdout
from typing import Any

import pytest
import yaml

from crds.codec import from_json
from crds.node_metric import ShadowAccount
from kubectl_headroom import output as outputs
from kubectl_headroom.explain.command import show
from manager.calculators.mid import calculate
from manager.inputs import Resource
from manager.mid.explanation import document as explain_json
from manager.mid.explanation.document import as_json
from manager.mid.explanation.explanation import Explanation
from manager.mid.explanation.findings import findings
from manager.mid.explanation.formula import decisive, evaluate
from manager.mid.explanation.terms import ORIGINS, Origin, inputs, with_numbers
from tests.kubectl_headroom.recording import NOW, explained, golden, named

SHAPE = [
    *["kind", "version", "node", "published", "calculated", "desired", "requested", "deficit", "degraded", "excluded"],
    *["notes", "next", "terms", "termsOtherwise", "inputs", "reportAgeSeconds", "predictionAgeSeconds", "prediction"],
    *["eviction", "hot", "conditions", "shadow", "manager", "mode", "strategy", "strategySources", "config", "whatIf"],
]


def text(explanation: Explanation) -> str:
    """The command's output into a pipe."""
    out = io.StringIO()
    with redirect_stdout(out):
        show(explanation)
    return out.getvalue()


@pytest.mark.parametrize("node", ["web-1", "web-2", "web-3"])
def test_explain_text(node: str) -> None:
    """The whole text for a node that publishes, one with an expired report, and one without a report."""
    assert text(explained(node)) == golden(f"explain_{node}.txt")


def test_disabled_node_shows_offer() -> None:
    """Where colocation is off, the terms say what would be published if it were on."""
    explanation = explained("web-1", config='{"midUnallocatedPercent": 50}')
    assert explanation.would_be is not None
    assert explanation.would_be.calculated.cpu == 7000
    shown = text(explanation)
    assert "If colocation were enabled: CPU" in shown
    assert "colocation is disabled for this node" in shown


def test_hot_node_shows_its_load() -> None:
    """Under hotNodes explain prints the load beside the thresholds, and the state of the taint; otherwise nothing."""
    assert as_json(explained("web-1"))["hot"] is None
    explanation = explained("web-1", config='{"hotNodes": {"mode": "dryRun", "cpuThresholdPercent": 30}}')
    section = text(explanation).partition("Hot node: ")[2].partition("\n\n")[0].splitlines()
    assert section[0] == "hot, without the taint; condition NodeHot has the reason"
    assert [line.split() for line in section[1:]] == [
        ["RESOURCE", "USAGE", "HOT", "ABOVE", "COOL", "UP", "TO"],
        ["cpu", "40", "%", "30", "%", "20", "%"],
        ["memory", "33", "%", "95", "%", "85", "%"],
    ]
    hot = as_json(explanation)["hot"]
    assert (hot["mode"], hot["taint"], hot["problem"]) == ("dryRun", None, None)
    assert hot["resources"][0] == {"resource": "cpu", "percent": 40, "hotAbove": 30, "coolUpTo": 20}


def test_expired_report_shows_its_numbers() -> None:
    """With an expired report the lines show the amounts that it would allow, and nothing is published."""
    explanation = explained("web-1", now=NOW + 86400)
    assert explanation.result.calculated.cpu == 0
    assert "If the report still counted: CPU" in text(explanation)
    result = as_json(explanation)["termsOtherwise"]
    assert (result["if"], result["terms"][-1]["name"]) == ("the report still counted", "mid")
    both = explained("web-1", config='{"midUnallocatedPercent": 50}', now=NOW + 86400)
    assert both.unless == "colocation were enabled and the report still counted"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["midReclaimMode=static"], "CPU: Mid is 0m because allocatable * static percent is 0"),
        (["midPolicy=design", "midCPUThresholdPercent=0"], "CPU: Mid is 0m because threshold is 0"),
    ],
)
def test_zero_of_other_policies_has_a_reason(settings: list[str], says: str) -> None:
    """A zero of any policy names the operand that it comes from."""
    assert says in findings(explained("web-1", *settings))


def test_reclaimable_zero_has_a_reason() -> None:
    """Where the agent reports Reclaimable 0, the prediction and the requests are shown."""
    metric = named("nodeMetrics", "web-1")
    metric["status"]["prodReclaimableMetric"]["resource"]["resources"]["cpu"] = "0"
    (said,) = [finding for finding in findings(explained("web-1", node_metric=metric)) if "reclaimable is 0" in finding]
    says = "CPU: reclaimable is 0m as the agent reports; it predicts that Prod pods, without the system, reach "
    assert said.startswith(says)
    assert said.endswith("; pods above Mid request 9000m")


@pytest.mark.parametrize(
    ("requested", "extra", "slack", "reclaimable", "decides"),
    [
        ("9", "500m", "7", "4", "unusedRequests"),  # 9 - 5 cores
        ("14", "500m", "200m", "8700m", "unusedRequests"),  # 14 - 5 - (0.5 - 0.2)
        ("18", "500m", "0", "9500m", "freeAtPeak"),  # 15 allocatable - 5 - 0.5
        ("4", "0", "12", "0", "unusedRequests"),
    ],
)
def test_bounds_of_reclaimable_are_printed(
    requested: str, extra: str, slack: str, reclaimable: str, decides: str
) -> None:
    """With the inputs that our agent reports, both bounds are lines of the formula, and one of them decides."""
    metric = named("nodeMetrics", "web-1")
    status = metric["status"]
    status["prodReclaimableMetric"]["resource"]["resources"]["cpu"] = reclaimable
    bounds = {"requested": requested, "prodPeak": "5", "systemExtra": extra, "slack": slack}
    status["prediction"]["reclaimable"] = {name: {"cpu": amount} for name, amount in bounds.items()}
    explanation = explained("web-1", node_metric=metric)
    term = explanation.result.term("reclaimable", Resource.CPU)
    assert term.value == evaluate(term.formula, term.inputs)
    assert decisive(term) == decides
    for name in ("unusedRequests", "freeAtPeak"):
        bound = explanation.result.term(name, Resource.CPU)
        assert bound.value == evaluate(bound.formula, bound.inputs) == term.inputs[name]
    with pytest.raises(KeyError):
        explanation.result.term("freeAtPeak", Resource.MEMORY)  # not reported
    if reclaimable == "0":
        assert "reclaimable is 0m because unusedRequests is 0: max(requests" in str(findings(explanation))


def test_bounds_that_disagree_are_left_out() -> None:
    """A fast report may be newer than the Node: bounds that do not give the reported amount are not printed."""
    metric = named("nodeMetrics", "web-1")
    same = {name: {"cpu": "1"} for name in ("requested", "prodPeak", "systemExtra", "slack")}
    metric["status"]["prediction"]["reclaimable"] = same
    with pytest.raises(KeyError):
        explained("web-1", node_metric=metric).result.term("unusedRequests", Resource.CPU)


def test_bad_config_keeps_last_good() -> None:
    """A ConfigMap that cannot be used is named with its fault, and the last good text decides."""
    explanation = explained("web-1", config='{"enable": "yes"}', last_good='{"enable": true}')
    assert explanation.facts.strategy.enabled
    first, second, *_ = findings(explanation)
    assert first.startswith("config: enable: must be true or false")
    assert second.endswith("the last good one stays in force until it is mended")


def test_bad_config_without_good_one() -> None:
    """When there never was a good one, the defaults are in force, which publish nothing."""
    explanation = explained("web-1", config="{")
    assert explanation.result.degraded is not None
    assert any(note.endswith("the defaults are in force until it is mended") for note in findings(explanation))


def test_zero_has_a_reason() -> None:
    """A node without reclaimable resources says so, with the setting that would change it."""
    metric = named("nodeMetrics", "web-1")
    del metric["status"]["prodReclaimableMetric"]
    explanation = explained("web-1", config='{"enable": true}', node_metric=metric)
    notes = " ".join(findings(explanation))
    assert "reclaimable is 0m: the NodeMetric has no prediction" in notes
    assert "CPU: Mid is 0m because nothing is reclaimable and midUnallocatedPercent is 0" in notes


def test_cold_prediction_has_a_reason() -> None:
    """A prediction that is not ready shows the agent's sentence about the missing part."""
    metric = named("nodeMetrics", "web-1")
    metric["status"]["conditions"][1] |= {"status": "False", "reason": "CollectingHistory", "message": "wait a day"}
    assert "prediction: wait a day" in findings(explained("web-1", node_metric=metric))


def test_waiting_increase_has_a_reason() -> None:
    """A Node with less than the calculated amount is explained by `midIncreaseHoldSeconds`."""
    assert any("held 120s" in note for note in findings(explained("web-1")))


def test_overdue_decrease_has_a_reason() -> None:
    """A Node with more than the calculated amount points at the manager."""
    notes = findings(explained("web-1", config='{"enable": true}'))
    assert any("the manager's log" in note for note in notes)


def test_missing_report_has_a_reason() -> None:
    """A node without a NodeMetric says that there was no report, and which object to check."""
    assert any("no NodeMetric report yet" in note for note in findings(explained("web-3")))


@pytest.mark.parametrize(
    "malformed",
    [{"policy": "x"}, {"pods": {"coldNames": [5]}}, {"pods": {"byHistoryWorkloads": [5]}}, 7, [{"policy": []}]],
)
def test_malformed_prediction_is_named(malformed: object) -> None:
    """A malformed foreign prediction is one sentence among the findings."""
    metric = named("nodeMetrics", "web-1")
    metric["status"]["prediction"] = malformed
    explanation = explained("web-1", node_metric=metric)
    assert any("NodeMetric web-1 cannot be read: status.prediction" in line for line in text(explanation).splitlines())


def test_held_back_pods_are_named() -> None:
    """The row of the history names pods with a memory usage below their need."""
    metric = named("nodeMetrics", "web-1")
    metric["status"]["prediction"]["pods"] = {"warm": 2, "cold": 1, "coldNames": ["a/b"], "heldBackNames": ["a/b"]}
    assert "held back by memory.high or swap: a/b" in text(explained("web-1", node_metric=metric))


def test_pods_by_history_have_their_workloads() -> None:
    """The row of the history has the number of cold pods of known workloads, and these workloads."""
    metric = named("nodeMetrics", "web-1")
    pods = {"warm": 2, "cold": 3, "byHistory": 2, "byHistoryWorkloads": ["a/Deployment/b", "a/Deployment/c"]}
    metric["status"]["prediction"]["pods"] = pods
    expected = "2 of them at the usage of a/Deployment/b, a/Deployment/c on other nodes"
    assert expected in text(explained("web-1", node_metric=metric))


def test_formula_with_numbers() -> None:
    """A formula is shown with each number behind its name, whole names only."""
    term = explained("web-1").result.term("reserved", Resource.CPU)
    assert with_numbers(term) == (
        "max(system usage 800m + Prod host applications 0m, capacity 16000m - allocatable 15000m, "
        "annotation reservation 500m)"
    )


@pytest.mark.parametrize(
    "settings",
    [{}, {"midPolicy": "design"}, {"midPolicy": "designMixed"}, {"midReclaimMode": "static"}],
)
def test_every_input_has_origin(settings: dict[str, Any]) -> None:
    """Each number of each policy's formula is traced to where it comes from."""
    explanation = explained("web-1", config=json.dumps({"enable": True, **settings}))
    result = inputs(explanation.result.terms, explanation.facts)
    assert result
    assert [entry.name for entry in result if entry.origin is Origin.UNKNOWN] == []
    assert {item.name for item in result} <= set(ORIGINS)


def test_ages_of_inputs() -> None:
    """Inputs of the report and of the prediction have their own ages; live values have none."""
    explanation = explained("web-1")
    ages = {input_.name: input_.age_seconds for input_ in inputs(explanation.result.terms, explanation.facts)}
    assert ages["node usage"] == 60
    assert ages["Reclaimable"] == 20
    assert ages["allocatable"] is None


def test_usage_with_the_prediction_has_its_age() -> None:
    """Usage that came with a newer prediction, as the usage of a class, has that age; the rest has the report's."""
    metric = named("nodeMetrics", "web-1")
    metric["status"]["prediction"]["classes"] = [
        {"name": "sys", "usage": {"cpu": "700m", "memory": "2Gi"}},
        {"name": "node", "usage": {"cpu": "5", "memory": "20Gi"}},
    ]
    rows = {input_["name"]: input_ for input_ in as_json(explained("web-1", node_metric=metric))["inputs"]}
    assert rows["system usage"]["values"]["cpu"] == 700
    assert (rows["system usage"]["from"], rows["system usage"]["ageSeconds"]) == ("NodeMetric prediction", 20)
    # of the two the larger one counts, and that is the full report's
    assert (rows["node usage"]["values"]["cpu"], rows["node usage"]["ageSeconds"]) == (6000, 60)


def test_shadow_account_is_shown() -> None:
    """A node in shadow mode shows the simulated amounts, and how often they would have been too high."""
    account = {
        "since": "2026-11-20T12:01:00Z",
        "time": "2026-11-21T11:55:00Z",
        "observedSeconds": 80000,
        "offered": {"cpu": "7", "memory": "20Gi"},
        "mean": {"cpu": "6500m", "memory": "18Gi"},
        "tooMuchSeconds": {"cpu": 800, "memory": 0},
        "worstExcess": {"cpu": "500m", "memory": "0"},
    }
    explanation = explained("web-1", "mode=shadow", shadow=from_json(ShadowAccount, account))
    _, _, section = text(explanation).partition("What shadow mode would have published\n")
    row = section.splitlines()[1].split()
    assert row[:2] == ["web-1", "24h"]
    assert "1.0%" in row
    assert as_json(explanation)["shadow"]["observedSeconds"] == 80000
    assert "What shadow mode" not in text(explained("web-1"))


def test_same_numbers_as_manager() -> None:
    """The explanation calculates with the manager's own function from the same facts."""
    explanation = explained("web-1")
    assert explanation.result == calculate(explanation.facts)


def test_json_is_complete() -> None:
    """JSON carries every term with its inputs, the ages, the strategy and its sources."""
    data = json.loads(json.dumps(as_json(explained("web-1"))))
    assert data["calculated"]["cpuMilli"] == 7000
    assert data["published"]["cpuMilli"] == 6500
    assert [term["name"] for term in data["terms"] if term["resource"] == "cpu"][-1] == "mid"
    assert data["strategySources"]["midCPUThresholdPercent"] == "nodeConfigs[0] web"
    assert data["reportAgeSeconds"] == 60
    assert data["degraded"] is None


@pytest.mark.parametrize("arguments", [("web-1",), ("web-3",), ("web-1", "midUnallocatedPercent=20")])
def test_yaml_has_same_content(arguments: tuple[str, ...]) -> None:
    """YAML and JSON say the same, with the same names in the same order."""
    explanation = explained(*arguments)
    as_yaml, as_text = (
        yaml.safe_load(outputs.document(explain_json.as_json(explanation), "yaml")),
        outputs.document(explain_json.as_json(explanation), "json"),
    )
    assert json.dumps(as_yaml) == json.dumps(json.loads(as_text))


def test_shape_is_stable() -> None:
    """Programs rely on these names; one may be added here, none may go."""
    data = as_json(explained("web-1"))
    assert (data["kind"], data["version"]) == ("NodeExplanation", 1)
    documented = set(re.findall(r"\w+", explain_json.__doc__ or ""))
    assert set(data) <= documented
    assert set(data) == set(SHAPE)
    assert set(data["next"][0]) == {"resource", "action", "published", "desired", "withinSeconds", "reason"}
    assert set(data["terms"][0]) == {"name", "resource", "value", "formula", "inputs", "decidedBy", "note"}
    assert data["terms"][0]["decidedBy"] == "capacity - allocatable"
    assert [condition["type"] for condition in data["conditions"]] == ["Collecting", "PredictionReady"]


def test_json_of_degraded_node() -> None:
    """A degraded node's JSON has the reason for programs and the sentence for people."""
    data = as_json(explained("web-3"))
    assert data["degraded"]["reason"] == "NoReport"
    assert data["terms"] == []


def test_old_clock_degrades() -> None:
    """Seen a day later, the same objects publish nothing, and the report's age says why."""
    explanation = explained("web-1", now=NOW + 86400)
    assert explanation.result.degraded is not None
    assert explanation.result.degraded.reason == "ReportExpired"
