"""A model that somebody else wrote, packaged, and installed beside the agent."""

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.alone

ROOT = Path(__file__).parents[3]
MODULE = '''
"""Twice the mean."""
from dataclasses import dataclass
from typing import ClassVar

from agent.predictors.base import ClassView, require


@dataclass(frozen=True, slots=True)
class TimesMean:
    """A multiple of the pods' means."""

    factor: float = 2.0
    measured: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require("factor", self.factor, 1.0, 10.0)

    def peak(self, view: ClassView, margin: float) -> float:
        """The means, that many times."""
        return margin * self.factor * float(view.pod_means.sum())


class Broken:
    """Not what a model is."""
'''
FILES = {
    "times_mean.py": MODULE,
    "times_mean-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: times-mean\nVersion: 1.0\n",
    "times_mean-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "times_mean-1.0.dist-info/entry_points.txt": (
        "[headroom.predictors]\n"
        "times-mean = times_mean:TimesMean\n"
        "broken = times_mean:Broken\n"
        "missing = times_mean:Nothing\n"
    ),
}
RUN = """
import json, sys
from agent.prediction import NodeFacts, predict
from agent.reporter import spec
from tests.agent.made import GIB, machine, pod
node, pods = machine(), [pod("a", 4000)]
node.rounds(20, {"a": 1.0}, pods)
facts = NodeFacts({"cpu": 15500, "memory": 30 * GIB}, {"cpu": 16000, "memory": 32 * GIB})
for policy in json.load(sys.stdin):
    asked = spec.read({"predictPolicy": policy}, spec.default())
    found = predict(node.now, node.learner, pods, facts, asked.predict_policy)
    print(json.dumps([found.policy.model, found.classes["prod"].peak["cpu"], found.problem]))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the package, without any network."""
    folder = tmp_path_factory.mktemp("third-party")
    wheel = folder / "times_mean-1.0-py3-none-any.whl"
    record = [f"{name},sha256={_digest(text)},{len(text.encode())}" for name, text in FILES.items()]
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**FILES, "times_mean-1.0.dist-info/RECORD": "\n".join([*record, ""])}.items():
            archive.writestr(name, text)
    options = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder / "site"), str(wheel)]
    subprocess.run(command, check=True, timeout=120)
    return folder / "site"


def _digest(text: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def _run(site: Path, *policies: dict[str, Any]) -> list[Any]:
    """Model in force, peak of Prod in milli-cores, and problem, for each policy, of an agent with those packages."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=ROOT,
        env=environment,
        input=json.dumps([{"coldStartPeriodSeconds": 60, **policy} for policy in policies]),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_installed_model_is_selected(installed: Path) -> None:
    """A policy selects the installed model by name, with its parameters, alone or in max; broken ones are named."""
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
    assert plain == ["nsigma-v2", 1000, ""]
    assert chosen == ["times-mean", 3000, ""]
    assert joint == ["max", 3300, ""]
    assert wrong[2] == "spec.predictPolicy.parameters.factor: must be a number from 1 to 10, got 11"
    assert "model broken (times_mean:Broken) is not a dataclass" in broken[2]
    assert "model missing is announced by times_mean:Nothing, which fails" in missing[2]
    assert {one[0] for one in (wrong, broken, missing)} == {"nsigma-v2"}
