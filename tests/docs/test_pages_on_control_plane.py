"""The pages' commands that need a cluster of their own without nodes: every number in them is made up, and exact."""

import os
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.runs import FOLDERS, ON_CONTROL_PLANE
from tests.pages import Reader
from tools.devcluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600), pytest.mark.long]


@pytest.mark.parametrize("page", ON_CONTROL_PLANE)
def test_page_is_true(page: str, tmp_path: Path) -> None:
    """A reader who pastes a page's commands into an empty cluster sees what the page shows, to the last digit."""
    for name in FOLDERS:
        (tmp_path / name).symlink_to(ROOT / name)
    with Cluster(kwok_nodes=0) as cluster:
        programs = f"{Path(sys.executable).parent}{os.pathsep}{cluster.environment['PATH']}"
        reader = Reader(tmp_path, {**cluster.environment, "PATH": programs, "COLUMNS": "150"})
        assert reader.follow(ROOT / page) >= 1
