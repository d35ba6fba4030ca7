"""Our copies of the reference vectors, in pytest."""

import pkgutil
from pathlib import Path

import pytest

from tests.golden import rules
from tests.golden.__main__ import VECTORS
from tests.golden.rules import DEVIATIONS, OUT_OF_SCOPE, RULES, rules_of
from tests.golden.runner import Outcome, run_file

FILES = sorted(VECTORS.glob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_vector_fails(file: Path) -> None:
    """Every reference vector passes, deviates as its rule says, or is counted apart."""
    report = run_file(file)
    assert [f"{failure.name}: {failure.detail}" for failure in report.failures] == []


def test_histogram_is_complete() -> None:
    """All histogram vectors are driven through our histogram."""
    report = run_file(VECTORS / "histogram.json")
    assert report.count(Outcome.PASSED) == len(report.judgements)


def test_priority_and_qos_are_complete() -> None:
    """All priority and QoS vectors are driven through our derivation."""
    judgements = run_file(VECTORS / "nodemetric_report.json").judgements
    found = [judgement for judgement in judgements if judgement.operation.startswith(("priority_", "qos_"))]
    assert len(found) == 40
    assert {judgement.outcome for judgement in found} == {Outcome.PASSED}


def test_report_is_complete() -> None:
    """Every vector of the report that is in scope has an answer, and so has every one about the agent's spec."""
    report = run_file(VECTORS / "nodemetric_report.json")
    assert report.count(Outcome.UNSUPPORTED) == 0
    judgements = run_file(VECTORS / "nodemetric_policy.json").judgements
    agents = {judgement.outcome for judgement in judgements if judgement.operation.startswith("agent_")}
    assert agents == {Outcome.PASSED}


def test_rules_have_reasons() -> None:
    """Every rule says why, and is about at least one operation."""
    for rule in (*OUT_OF_SCOPE, *DEVIATIONS):
        assert rule.reason
        assert rule.operations


def test_rules_are_registered() -> None:
    """The registry names every module of rules, and a module holds the rules of its own file."""
    modules = {module.name for module in pkgutil.iter_modules(rules.__path__)} - {"rule"}
    assert set(RULES) == modules
    assert {family: {rule.family for rule in rules_of(family)} for family in RULES} == {
        name: {name} for name in modules
    }


def test_peak_predictor_is_complete() -> None:
    """Every vector of the rule and of training that is in scope is driven through our predictors."""
    report = run_file(VECTORS / "peak_predictor.json")
    assert report.count(Outcome.UNSUPPORTED) == 0
    deviating = {each.operation for each in report.judgements if each.outcome is Outcome.DEVIATION}
    assert deviating == {"training", "prod_reclaimable"}


def test_manager_is_complete() -> None:
    """Every vector of Mid, of the configuration and of NodeMetric specs that is in scope has an answer."""
    reports = [
        run_file(VECTORS / f"{name}.json") for name in ("mid_resource", "colocation_config", "nodemetric_policy")
    ]
    assert [report.count(Outcome.UNSUPPORTED) for report in reports] == [0, 0, 0]
    counts = [report.count(Outcome.PASSED) + report.count(Outcome.DEVIATION) for report in reports]
    assert counts == [37, 106, 19]


def test_samples_that_bend_the_formula() -> None:
    """Of the recorded nodes, two sell another amount than the peer's, for the reasons that the design gives."""
    judgements = run_file(VECTORS / "mid_resource.json").judgements
    found = {each.detail for each in judgements if each.outcome is Outcome.DEVIATION and each.operation == "calculate"}
    assert found == {
        "static mode sells a share of allocatable, not of capacity",
        "what is unused bounds the sum of the reclaimable and the unallocated share",
    }


def test_overcommitment_is_complete() -> None:
    """Every vector of LowRiskOverCommitment, NodeResourcesAllocatable and their arguments in scope has an answer."""
    names = ("low_risk_overcommitment", "noderesources_allocatable", "trimaran_args")
    reports = [run_file(VECTORS / f"{name}.json") for name in names]
    assert [report.count(Outcome.UNSUPPORTED) for report in reports] == [0, 0, 0]
    assert [report.count(Outcome.PASSED) for report in reports] == [84, 17, 7]
    deviating = {each.operation for each in reports[0].judgements if each.outcome is Outcome.DEVIATION}
    assert deviating == {"score"}
