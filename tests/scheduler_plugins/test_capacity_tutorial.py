"""The test runs docs/capacity-tutorial.md block by block, with the shipped profile and scheduler name."""

import os
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.pages import Reader
from tests.scheduler_plugins.extenders import ROOT, profile
from tests.scheduler_plugins.stage import Stage
from tools.devcluster import Cluster, NodeTemplate

pytestmark = [pytest.mark.cluster, pytest.mark.long]

PAGE: Final = ROOT / "docs" / "capacity-tutorial.md"


@pytest.mark.timeout(600)
def test_tutorial_output(cluster: Cluster, tmp_path: Path) -> None:
    """The tutorial's commands print the output that the tutorial shows, from the first block to the last."""
    with Stage.open(cluster, "tutorial", 0) as stage:
        stage.add("headroom-scheduler", profile())
        (node,) = cluster.kwok.add(1, NodeTemplate(), prefix="tutorial")
        stage.wait()
        programs = f"{Path(sys.executable).parent}{os.pathsep}{cluster.environment['PATH']}"  # with kubectl-headroom
        reader = Reader(tmp_path, {**cluster.environment, "PATH": programs, "NODE": node})
        try:
            assert reader.follow(PAGE) >= 25
        finally:  # quotas that a failed page leaves would count in other tests
            cluster.kubectl("delete", "namespace", "team-a", "team-b", "team-c", "--ignore-not-found")
