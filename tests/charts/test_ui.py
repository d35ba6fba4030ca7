"""The manager's page as the chart sets it up: for port-forward alone."""

import json

import pytest

from manager.settings import load
from manager.web.server import is_loopback
from tests.charts.rendered import Helm, Rendered, render

pytestmark = pytest.mark.helm


def _listens(chart: Rendered) -> str:
    """The address of the page, as the manager itself reads its flags."""
    arguments = chart.container("headroom-manager/manager")["args"]
    return load([each for each in arguments if each.startswith("--ui-listen")]).ui_listen


def test_page_listens_on_loopback(helm: Helm) -> None:
    """By default, on the pod's loopback, and no Service, container port or policy names its port."""
    chart = render(helm)
    assert _listens(chart) == "127.0.0.1:8081"
    assert is_loopback(_listens(chart))
    opened = chart.of_kind("Service", "NetworkPolicy")
    assert opened
    assert "8081" not in json.dumps(opened)
    assert all(port["containerPort"] != 8081 for _, each in chart.containers() for port in each.get("ports", []))
    assert _listens(render(helm, "manager.ui.enabled=false")) == ""
    assert _listens(render(helm, "manager.ui.port=9000")) == "127.0.0.1:9000"
