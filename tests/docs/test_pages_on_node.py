"""The pages' commands, followed on a real node: the quick start first, and what it set up is there for all others."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from demo.stage import stage
from demo.steps import load_aware, mid_pod, nodes, prod_pods
from demo.story import Story
from tests.docs.pages import ROOT
from tests.docs.runs import FOLDERS, ON_NODE, QUICK_START
from tests.pages import Reader

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

PAUSE: Final = "localhost/pause:dev"


def _values(story: Story) -> str:
    """What a user's own values.yaml says: here which images, and that one node has no room for two of each."""
    return yaml.safe_dump(
        {
            "manager": {"replicas": 1},
            "scheduler": {
                "replicas": 1,
                "image": f"localhost/kube-scheduler:{story.cluster.binaries.kubernetes_version}",
            },
            "agent": {"nodeSelector": {"headroom.dev/node": "shown"}, "extraArgs": ["--training-interval=5s"]},
        }
    )


@pytest.fixture(scope="module")
def reader(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    real_node_requirements: None,  # noqa: ARG001 - it skips
) -> Iterator[Reader]:
    """A reader who has followed the quick start; beside it run the demo's pods."""
    folder = tmp_path_factory.mktemp("clone")
    for name in FOLDERS:
        (folder / name).symlink_to(ROOT / name)
    with stage(f"docs-{os.getpid()}") as story:
        nodes(story)
        (folder / "values.yaml").write_text(_values(story), encoding="utf-8")
        programs = f"{Path(sys.executable).parent}{os.pathsep}{story.cluster.environment['PATH']}"
        given = {"PATH": programs, "NODE": story.node, "IMAGE": PAUSE, "COLUMNS": "150"}
        reader = Reader(folder, {**story.cluster.environment, **given})
        assert reader.follow(ROOT / QUICK_START) >= 10
        for step in (prod_pods, mid_pod, load_aware):
            step(story)
        yield reader
        if request.session.testsfailed:
            story.cluster.keep_logs()


@pytest.mark.parametrize("page", ON_NODE)
def test_page_is_true(reader: Reader, page: str) -> None:
    """Whoever pastes a page's commands, with Headroom installed as in the quick start, sees what the page shows."""
    assert reader.follow(ROOT / page) >= 1
