"""Objects that were read from an API server once: three nodes, their reports, pods and the colocation ConfigMap."""

import copy
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from crds.node_metric import ShadowAccount
from headroom.kube import paths
from kubectl_headroom import live
from kubectl_headroom.config.file import ConfigFile
from kubectl_headroom.explain.what_if import what_if
from manager.mid.explanation.explanation import Explanation, ObservedNode, config_state, explain
from manager.mid.explanation.lease import Lease
from manager.mid.node_filter import NodeFilter
from tests.kubectl_headroom.quota_site import put
from tests.support.api import FakeApi

NOW: Final = datetime(2026, 11, 21, 12, 1, 0, tzinfo=UTC).timestamp()  # one minute after web-1 reported [unix s]
HERE: Final = Path(__file__).parent
Json = dict[str, Any]
_AS_RECORDED: Final[Json] = {}
_CLUSTER: Final = json.loads((HERE / "recorded" / "cluster.json").read_text())


def recorded(part: str) -> Any:  # noqa: ANN401 - lists and objects of the API
    """A fresh copy of "nodes", "nodeMetrics", "pods" or "configMap"."""
    return copy.deepcopy(_CLUSTER[part])


def put_recorded(api: FakeApi) -> None:
    """Store the recorded objects where commands look for them."""
    for node in recorded("nodes"):
        api.put(paths.node(node["metadata"]["name"]), node)
    for metric in recorded("nodeMetrics"):
        api.put(f"{live.NODE_METRICS}/{metric['metadata']['name']}", metric)
    for pod in recorded("pods"):
        pod["metadata"].setdefault("uid", f"uid-{pod['metadata']['name']}")
        put(api, pod)
    api.put(paths.config_map("headroom-system", "slo-controller-config"), recorded("configMap"))


def named(part: str, name: str) -> Json:
    result: Json = next(item for item in recorded(part) if item["metadata"]["name"] == name)
    return result


def golden(name: str) -> str:
    return (HERE / "recorded" / name).read_text()


def explained(
    name: str,
    *settings: str,
    config: str | None = None,
    last_good: str | None = None,
    tried_config: str | None = None,
    node_metric: Json | None = _AS_RECORDED,
    node: Json | None = None,
    lease: Lease | None = None,
    exclude_nodes: str = "type=virtual-kubelet",
    pods: Sequence[Json] = (),
    shadow: ShadowAccount | None = None,
    now: float = NOW,
) -> Explanation:
    """The explanation of a recorded node, with the recorded objects unless others are given."""
    config_map = recorded("configMap")
    if config is not None:
        config_map["data"]["colocation-config"] = config
    metric = next((entry for entry in recorded("nodeMetrics") if entry["metadata"]["name"] == name), None)
    observed = ObservedNode(
        named("nodes", name) if node is None else node,
        metric if node_metric is _AS_RECORDED else node_metric,
        [*(pod for pod in recorded("pods") if pod["spec"].get("nodeName") == name), *pods],
        now,
        lease=lease,
        exclusion=NodeFilter.of(exclude_nodes),
        shadow=shadow,
    )
    state = config_state(
        config_map,
        {"data": {"colocation-config": last_good}} if last_good is not None else None,
        "headroom-system/slo-controller-config",
        now,
    )
    return explain(observed, state, what_if(settings, ConfigFile("new.json", tried_config) if tried_config else None))
