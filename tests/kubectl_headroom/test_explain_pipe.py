"""The agent's report of this machine, explained without a cluster."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import yaml

AGENT: Final = f"{sys.executable} -m agent --standalone --once -o yaml --node-name worker"
EXPLAIN: Final = f"{sys.executable} -m kubectl_headroom explain node -f -"


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_STATE_HOME": str(folder), "KUBECONFIG": str(folder / "absent")}
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )


def test_pipe_explains_this_machine(tmp_path: Path) -> None:
    """The pipe of the README ends with 0: percentiles are there, and no Node is missing."""
    report = tmp_path / "report.yaml"
    done = run(f"{AGENT} | tee {report} | {EXPLAIN}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Node worker\n")
    assert "What if: standard input has no colocation ConfigMap" in done.stdout
    assert "has no Node " not in done.stdout
    metric, node = yaml.safe_load_all(report.read_text())
    assert node["status"]["allocatable"]["cpu"] == f"{os.cpu_count()}"
    window = metric["status"]["nodeMetric"]["aggregatedNodeUsages"][0]
    assert window["duration"] == "10s"
    assert all(amounts["resources"].keys() == {"cpu", "memory"} for amounts in window["usage"].values())
