"""Every argument of every plugin of ours, set by values."""

import json
from pathlib import Path

import pytest
import yaml

from scheduler_plugins.arguments import encode
from scheduler_plugins.plugins import PLUGINS
from scheduler_plugins.profile import load_profile
from scheduler_plugins.profile.registry import build
from tests.charts.rendered import CHART, Helm, Rendered

pytestmark = pytest.mark.helm


def test_every_argument_can_be_set(helm: Helm, tmp_path: Path) -> None:
    """Each argument of each plugin, given in values with its default, is taken by the schema and by the extender."""
    defaults = {name: encode(build(name, {}, name)) for name in PLUGINS}
    listed = json.dumps([{"name": name} for name in PLUGINS])
    values = [f"scheduler.profile.plugins={listed}"]
    values += [f"scheduler.profile.arguments.{name}={json.dumps(given)}" for name, given in defaults.items()]
    flags = [flag for each in values for flag in ("--set-json", each)]
    text = helm("template", "headroom", str(CHART), "--kube-version", "v1.36.2", *flags)
    chart = Rendered(tuple(each for each in yaml.safe_load_all(text) if each))
    path = tmp_path / "profile.yaml"
    path.write_text(chart.one("ConfigMap", "headroom-scheduler")["data"]["profile.yaml"])
    assert {each.name: encode(each.plugin) for each in load_profile(path).enabled} == defaults
    assert sum(len(each) for each in defaults.values()) > 25
