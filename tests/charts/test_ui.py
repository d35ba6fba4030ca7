"""The manager's page as the chart sets it up: for port-forward alone."""

import json
import re

import pytest

from manager.settings import load
from manager.web.server import is_loopback
from tests.charts.rendered import Helm, Rendered, render
from tools.devcluster.commands import CommandError

pytestmark = pytest.mark.helm


def _listens(chart: Rendered) -> str:
    """The address of the page, as the manager itself reads its flags."""
    deployment = next(each for each in chart.of_kind("Deployment") if each["metadata"]["name"] == "headroom-manager")
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    return load([each for each in arguments if each.startswith("--ui-listen")]).ui_listen


def test_page_listens_on_loopback(helm: Helm) -> None:
    """The page is on by default, on the pod's loopback, and no Service, container port or policy names its port."""
    chart = render(helm)
    assert _listens(chart) == "127.0.0.1:8081"
    assert is_loopback(_listens(chart))
    opened = [each for kind in ("Service", "NetworkPolicy") for each in chart.of_kind(kind)]
    assert opened
    assert "8081" not in json.dumps(opened)
    assert all(port["containerPort"] != 8081 for _, each in chart.containers() for port in each.get("ports", []))


def test_page_can_be_switched_off(helm: Helm) -> None:
    """Without it the manager gets no flag, and its port can be chosen."""
    assert _listens(render(helm, "manager.ui.enabled=false")) == ""
    assert _listens(render(helm, "manager.ui.port=9000")) == "127.0.0.1:9000"


@pytest.mark.parametrize("setting", ["manager.ui.port=8080", "manager.ui.port=80", "manager.ui.enabled=maybe"])
def test_wrong_pages_are_refused(helm: Helm, setting: str) -> None:
    """A port that the manager uses already, or may not take, is refused with its path."""
    path = f"/{setting.partition('=')[0].replace('.', '/')}"
    with pytest.raises(CommandError, match=re.escape(path)):
        render(helm, setting)
