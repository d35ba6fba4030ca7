"""kube-scheduler's configuration in the chart, validated by kube-scheduler itself."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler_plugins.settings import Settings
from tests.charts.rendered import render
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster


def _understood(cluster: Cluster, path: Path, *flags: str) -> Any:  # noqa: ANN401 - parsed YAML
    """The configuration that kube-scheduler would run with, every default filled in; it only writes it and ends."""
    done = subprocess.run(
        [cluster.binaries.path("kube-scheduler"), f"--write-config-to={path}", "--secure-port=0", *flags],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(path.read_text())


def _weights(config: Any) -> dict[str, int]:  # noqa: ANN401 - parsed YAML
    enabled = config["profiles"][0]["plugins"]["multiPoint"]["enabled"]
    return {plugin["name"]: plugin["weight"] for plugin in enabled if plugin["weight"]}


@pytest.mark.parametrize("mode", ["shortlist", "weighted"])
def test_kube_scheduler_understands_it(cluster: Cluster, tmp_path: Path, mode: str) -> None:
    """kube-scheduler accepts the chart's configuration; in mode `weighted` its own scores weigh ten times as much."""
    defaults = _understood(cluster, tmp_path / "defaults.yaml", f"--kubeconfig={cluster.kubeconfig}")
    config = render(cluster.helm, f"scheduler.mode={mode}").config("headroom-scheduler", "kube-scheduler.yaml")
    config["clientConnection"] = {"kubeconfig": str(cluster.kubeconfig)}
    given = tmp_path / "given.yaml"
    given.write_text(yaml.safe_dump(config))
    found = _understood(cluster, tmp_path / "found.yaml", f"--config={given}")
    factor = 10 if mode == "weighted" else 1
    assert _weights(found) == {name: factor * weight for name, weight in _weights(defaults).items()}
    (extender,) = found["extenders"]
    assert (extender["filterVerb"], extender["preemptVerb"]) == ("filter", "preempt")
    assert (extender["nodeCacheCapable"], extender["ignorable"]) == (True, True)
    assert extender["httpTimeout"] == f"{Settings().http_timeout:.0f}s"  # the extender counts what takes longer
    assert extender.get("prioritizeVerb", "") == ("prioritize" if mode == "weighted" else "")
    assert "bindVerb" not in extender
    assert not extender.get("managedResources")
