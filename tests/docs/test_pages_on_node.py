"""The pages' commands, followed on a real node after the quick start, or on an empty control plane."""

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.docs.pages import ROOT
from tests.docs.runs import FOLDERS, ON_CONTROL_PLANE, ON_NODE, QUICK_START
from tests.pages import PageError, Reader
from tools.demo.stage import stage
from tools.demo.steps import load_aware, nodes, prod_pods
from tools.demo.story import MANIFESTS, Story
from tools.devcluster import Cluster

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]

PAUSE: Final = "localhost/pause:dev"
MID_CPU: Final = "0"
"""CPU request of the quick start's Mid pod: other tests keep the machine busy, and then none is published.
The demo's pod requests some, and its test waits until there is."""


def _values(story: Story) -> str:
    """Settings of a user's own values.yaml: here the images, and that one node cannot hold two of each."""
    return yaml.safe_dump(
        {
            "image": {"registry": "localhost", "agent": {"tag": "dev"}, "manager": {"tag": "dev"}},
            "manager": {"replicas": 1},
            "scheduler": {
                "replicas": 1,
                "image": f"localhost/kube-scheduler:{story.cluster.binaries.kubernetes_version}",
            },
            "agent": {"nodeSelector": {"headroom.dev/node": "shown"}, "extraArgs": ["--training-interval=5s"]},
        }
    )


@dataclass(frozen=True)
class Beginning:
    reader: Reader
    fault: str  # what in the quick start was not so; empty when all of it was


@pytest.fixture(scope="module")
def beginning(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    real_node_requirements: None,  # noqa: ARG001 - it skips
) -> Iterator[Beginning]:
    """The state after the quick start, with the demo's pods."""
    folder = tmp_path_factory.mktemp("clone")
    for name in FOLDERS:
        (folder / name).symlink_to(ROOT / name)
    with stage(f"docs-{os.getpid()}") as story:
        nodes(story)
        (folder / "values.yaml").write_text(_values(story), encoding="utf-8")
        programs = f"{Path(sys.executable).parent}{os.pathsep}{story.cluster.environment['PATH']}"
        environment = {"PATH": programs, "NODE": story.node, "IMAGE": PAUSE, "MID_CPU": MID_CPU, "COLUMNS": "150"}
        reader = Reader(folder, {**story.cluster.environment, **environment})
        beginning = Beginning(reader, "")
        try:
            assert reader.follow(ROOT / QUICK_START) >= 10
        except PageError as error:  # other pages may be true all the same
            beginning = Beginning(reader, str(error))
        prod_pods(story)
        mid = (MANIFESTS / "mid.yaml").read_text(encoding="utf-8")
        story.cluster.apply(re.sub(r'(mid-cpu): "\d+"', rf'\1: "{MID_CPU}"', mid))
        load_aware(story)
        story.narrator.wait_until("the Mid pod runs", lambda: story.phase("batch-report", "Running"), seconds=120)
        yield beginning
        if request.session.testsfailed:
            story.cluster.keep_logs()


@pytest.mark.node
def test_quick_start_is_true(beginning: Beginning) -> None:
    """The quick start's commands in an empty cluster print the page's output, until a Mid pod runs."""
    assert not beginning.fault, beginning.fault


@pytest.mark.node
@pytest.mark.parametrize("page", ON_NODE)
def test_page_is_true(beginning: Beginning, page: str) -> None:
    assert beginning.reader.follow(ROOT / page) >= 1


@pytest.mark.cluster
@pytest.mark.parametrize("page", ON_CONTROL_PLANE)
def test_page_on_control_plane_is_true(page: str, tmp_path: Path) -> None:
    """A page's commands in a cluster of its own print the page's output, to the last digit."""
    for name in FOLDERS:
        (tmp_path / name).symlink_to(ROOT / name)
    with Cluster(kwok_nodes=ON_CONTROL_PLANE[page]) as cluster:
        programs = f"{Path(sys.executable).parent}{os.pathsep}{cluster.environment['PATH']}"
        reader = Reader(tmp_path, {**cluster.environment, "PATH": programs, "COLUMNS": "150"})
        assert reader.follow(ROOT / page) >= 1
