"""explain accepts any content of a Node, a NodeMetric or a pod."""

import io
import json
from contextlib import redirect_stdout
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crds import names
from kubectl_headroom import output as outputs
from kubectl_headroom.explain.command import show
from kubectl_headroom.manager_state import exclusion
from manager.mid.explanation import document as explain_json
from manager.mid.explanation.lease import lease_of
from tests.kubectl_headroom.recording import explained, named
from tests.manager.test_mid_properties import JSON


@given(JSON, JSON, JSON)
def test_any_metric_is_explained(status: Any, part: Any, conditions: Any) -> None:  # noqa: ANN401
    """A NodeMetric with any status: no traceback, and both forms are printed."""
    whole = named("nodeMetrics", "web-1")
    mixed = named("nodeMetrics", "web-1")
    whole["status"] = status
    mixed["status"] |= {"prediction": part, "conditions": conditions, "shadow": part, "nodeMetric": conditions}
    for metric in (whole, mixed):
        explanation = explained("web-1", "midUnallocatedPercent=20", node_metric=metric)
        with redirect_stdout(io.StringIO()):
            show(explanation)
        assert json.loads(outputs.document(explain_json.as_json(explanation), "json"))["node"] == "web-1"


@given(JSON, JSON, st.text(max_size=20))
def test_any_node_is_explained(resources: Any, managed: Any, text: str) -> None:  # noqa: ANN401
    """A Node with any resources, annotations and managed fields is explained."""
    node = named("nodes", "web-1")
    node["status"] = {"capacity": resources, "allocatable": {names.MID_CPU: resources, "cpu": "4"}}
    node["metadata"]["managedFields"] = managed
    node["metadata"]["annotations"] = {
        names.ANNOTATION_COLOCATION_STRATEGY: text,
        names.ANNOTATION_NODE_RESERVATION: text,
        names.ANNOTATION_RAW_ALLOCATABLE: text,
    }
    explanation = explained("web-1", node=node)
    with redirect_stdout(io.StringIO()):
        show(explanation)
    outputs.document(explain_json.as_json(explanation), "yaml")


def test_report_of_a_former_node_does_not_count() -> None:
    """A recreated Node: its NodeMetric is about the deleted one, as for the manager."""
    metric = named("nodeMetrics", "web-1")
    metric["metadata"]["ownerReferences"] = [{"kind": "Node", "name": "web-1", "uid": "of-the-one-before"}]
    explanation = explained("web-1", node_metric=metric)
    assert explanation.result.degraded is not None
    assert explanation.result.degraded.reason == "NoReport"
    with redirect_stdout(io.StringIO()):
        show(explanation)


@given(st.text(max_size=20))
def test_any_flag_and_lease_is_read(text: str) -> None:
    """A Deployment with any value of --exclude-nodes, and a Lease with any times, are read."""
    container = {"args": ["--listen=:8080", f"--exclude-nodes={text}"]}
    exclusion({"spec": {"template": {"spec": {"containers": [container]}}}})
    lease = lease_of({"spec": {"holderIdentity": text, "renewTime": text}}, 0.0)
    assert lease is not None
    assert lease.holder == text
