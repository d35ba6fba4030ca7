"""The page about the backtest: its commands are followed on the traces of the repository, without a cluster."""

import os
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.pages import Reader

KUBECTL = """#!/bin/sh
# What kubectl does with the name of a plugin.
[ "$1" = headroom ] && shift && exec kubectl-headroom "$@"
exit 1
"""


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(900)
def test_page_is_true(tmp_path: Path) -> None:
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    programs = os.pathsep.join([str(kubectl.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {"PATH": programs, "HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "none"), "PYTHONPATH": str(ROOT)}
    reader = Reader(tmp_path, {**os.environ, **env, "COLUMNS": "150"})
    assert reader.follow(ROOT / "docs" / "backtest.md") >= 5
