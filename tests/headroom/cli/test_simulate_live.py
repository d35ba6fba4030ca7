"""What the command says is what the running extender answers: the same code over the same cluster."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.scheduler_plugins.extenders import ROOT, profile
from tests.scheduler_plugins.stage import Stage, Usage
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster


def _simulate(cluster: Cluster, *arguments: str) -> Any:  # noqa: ANN401 - parsed JSON
    done = subprocess.run(
        [sys.executable, "-m", "headroom.cli", "simulate", "pod", *arguments, "-o", "json"],
        cwd=ROOT,
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_simulation_is_what_extender_answers(cluster: Cluster, tmp_path: Path) -> None:
    """For one pod, over nodes hot and cold, overcommitted and not: same refusals, same reasons, same scores."""
    with Stage.open(cluster, f"simulate-{os.getpid()}", 6) as stage:
        # One node's limits exceed its memory with this pod, another's alone; the others differ in usage.
        limits = ({"cpu": "12", "memory": "130Gi"}, {"cpu": "8", "memory": "200Gi"})
        bound = zip(limits, stage.nodes, strict=False)
        stage.create(*(stage.pod(f"p{i}", cpu="4", node=node, limits=most) for i, (most, node) in enumerate(bound)))
        extender = stage.add_extender("extender-simulate", profile("weighted"))
        stage.wait()
        used = dict(zip(stage.nodes, (2, 2, 29, 5, 31, 10), strict=True))
        stage.settle({node: Usage(cores, cores) for node, cores in used.items()})
        made = stage.pod("asks", cpu="3", memory="9Gi", limits={"cpu": "6", "memory": "10Gi"})
        path = tmp_path / "pod.json"
        path.write_text(json.dumps(made))
        given = ["--profile", str(cluster.dir / "extender-simulate-profile.yaml")]
        data = _simulate(cluster, str(path), *given)
        found = {each["node"]: each for each in data["pods"][0]["nodes"] if each["node"] in stage.nodes}
        assert set(found) == set(stage.nodes)

        asked = {**made, "metadata": {**made["metadata"], "uid": "simulated", "resourceVersion": "1"}}

        def ask(verb: str, *names: str) -> Any:  # noqa: ANN401 - parsed JSON
            return json.loads(extender.ask(verb, {"Pod": asked, "Nodes": None, "NodeNames": list(names)}))

        passing = [name for name, each in found.items() if each["passes"]]
        assert sorted(ask("/filter", *stage.nodes)["NodeNames"]) == sorted(passing)
        assert 0 < len(passing) < len(stage.nodes)
        refused = {name: each["refusals"][0]["reason"] for name, each in found.items() if not each["passes"]}
        assert ask("/filter", *refused)["FailedAndUnresolvableNodes"] == refused
        scores = {each["Host"]: each["Score"] for each in ask("/prioritize", *passing)}
        assert scores == {name: found[name]["score"] for name in passing}
        assert len(set(scores.values())) == 3
        assert found[stage.nodes[0]]["plugins"]["LowRiskOverCommitment"]["raw"] < 100

        # A pod that runs is judged as if it did not: what it requests alone does not count where it is.
        (running,) = _simulate(cluster, "p0", "-n", stage.name, *given)["pods"]
        assert running["pod"] == f"Pod {stage.name}/p0"
        assert {each["node"] for each in running["nodes"]} >= set(stage.nodes)
