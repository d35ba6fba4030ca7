import json
from pathlib import Path
from typing import Any

import pytest

from crds.predict_policy import DEFAULTS
from tests.packaged import install, python

pytestmark = pytest.mark.alone

MODULE = '''
"""Twice the mean."""
from dataclasses import dataclass
from typing import ClassVar

from agent.predictors.base import Amount, View, require


@dataclass(frozen=True, slots=True)
class TimesMean:
    """A multiple of the pods' means."""

    factor: float = 2.0
    measured: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require("factor", self.factor, 1.0, 10.0)

    def peak(self, view: View, margin: float) -> Amount:
        """The means, that many times."""
        return margin * self.factor * view.pod_means.sum(axis=-1)


class Broken:
    """Not what a model is."""
'''
ENTRY_POINTS = """[headroom.predictors]
times-mean = times_mean:TimesMean
broken = times_mean:Broken
missing = times_mean:Nothing
"""
RUN = """
import json, sys
from agent.prediction.node import NodeResources, predict
from agent.reporter import spec
from tests.agent.made import GIB, machine, pod
node, pods = machine(), [pod("a", 4000)]
node.rounds(20, {"a": 1.0}, pods)
resources = NodeResources({"cpu": 15500, "memory": 30 * GIB}, {"cpu": 16000, "memory": 32 * GIB})
for policy in json.load(sys.stdin):
    wanted = spec.read({"predictPolicy": policy}, spec.default())
    found = predict(node.now, node.trainer, pods, resources, wanted.predict_policy)
    print(json.dumps([found.policy.model, found.classes["prod"].peak["cpu"], found.problem]))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("third-party"), "times_mean", MODULE, ENTRY_POINTS)


def _run(site: Path, *policies: dict[str, Any]) -> list[Any]:
    """Model in force, peak of Prod in milli-cores, and problem, for each policy, of an agent with those packages."""
    text = json.dumps([{"coldStartPeriodSeconds": 60, **policy} for policy in policies])
    done = python(site, "-c", RUN, stdin=text)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_installed_model_is_selected_by_name_alone_or_in_max_and_broken_ones_named(installed: Path) -> None:
    times_mean = {"model": "times-mean", "parameters": {"factor": 3}}
    plain, chosen, joint, wrong, broken, missing = _run(
        installed,
        {"safetyMarginPercent": 0},
        {**times_mean, "safetyMarginPercent": 0},
        {"model": "max", "of": [times_mean, {"model": "recent-max"}]},
        {"model": "times-mean", "parameters": {"factor": 11}},
        {"model": "broken"},
        {"model": "missing"},
    )
    assert plain == [DEFAULTS.model, 1000, ""]
    assert chosen == ["times-mean", 3000, ""]
    assert joint == ["max", 3300, ""]
    assert wrong[2] == "spec.predictPolicy.parameters.factor: must be a number from 1 to 10, got 11"
    assert "model broken (times_mean:Broken) is not a dataclass" in broken[2]
    assert "model missing is announced by times_mean:Nothing, which fails" in missing[2]
    assert {entry[0] for entry in (wrong, broken, missing)} == {DEFAULTS.model}
