from typing import Any

from crds import names
from manager.mid.explanation.document import as_json
from manager.mid.explanation.findings import findings
from tests.kubectl_headroom.recording import NOW, Json, explained, named

NONE_UNALLOCATED = "midUnallocatedPercent=0"
SHORT = "midCPUThresholdPercent=10"
"""Leaves 1500m to publish on web-1, where Mid pods requested 3000m."""


def mid_pod(name: str, cpu: str, **metadata: Any) -> Json:  # noqa: ANN401 - metadata of a pod
    """A Mid pod on web-1."""
    made = named("pods", "nightly-report")
    made["metadata"] |= {"name": name, "uid": f"uid-{name}", **metadata}
    amounts = {names.MID_CPU: cpu, names.MID_MEMORY: "1"}
    limits = {**amounts, "cpu": "4", "memory": "4Gi"}
    requests = {**amounts, "cpu": "0", "memory": "0"}
    made["spec"]["containers"] = [{"name": "c", "resources": {"requests": requests, "limits": limits}}]
    return made


def deficits(*settings: str, pods: tuple[Json, ...] = ()) -> list[str]:
    """The lines of explain about a deficit."""
    return [note for note in findings(explained("web-1", *settings, pods=pods)) if note.startswith("deficit: ")]


def test_no_deficit_no_word() -> None:
    """Where nothing is published beyond what may be, eviction is no topic."""
    assert deficits() == []
    assert as_json(explained("web-1"))["eviction"] is None


def test_victims_are_named_in_order() -> None:
    """A deficit names the pods that would go, the largest first, as few as it takes, and from when on."""
    young = mid_pod("young", "1000", creationTimestamp="2026-11-21T11:59:00Z")
    old = mid_pod("old", "1000", creationTimestamp="2026-11-20T11:59:00Z")
    (said,) = deficits(SHORT, "midEviction.afterSeconds=60", pods=(old, young))
    # 5000m requested, 1500m may be published: 3000m by the report, then 1000m by `young`
    order = [said.index(name) for name in ("shop/nightly-report", "shop/young") if name in said]
    assert order == sorted(order)
    assert len(order) == 2
    assert "short by 3500m CPU" in said
    assert "would be evicted if midEviction.mode were on" in said
    assert "has lasted 60s (midEviction.afterSeconds)" in said


def test_mode_on_evicts() -> None:
    """With mode on they are evicted; with off none is."""
    assert "these are evicted, in this order" in deficits(SHORT, "midEviction.mode=on")[0]
    assert deficits(SHORT, "midEviction.mode=off") == ["deficit: midEviction.mode is off, so no Mid pod is evicted"]


def test_unproven_deficit_evicts_no_pod() -> None:
    """A deficit from a missing report or from disabled colocation evicts no pod."""
    assert deficits("enable=false") == ["deficit: this node publishes nothing, so no Mid pod is evicted"]
    assert deficits(SHORT, "mode=shadow") == ["deficit: mode is shadow, so no Mid pod is evicted"]
    late = findings(explained("web-1", now=NOW + 86400))
    assert "deficit: no fresh report proves that anything is short, so no Mid pod is evicted" in late
    eviction = as_json(explained("web-1", "enable=false"))["eviction"]
    assert eviction["proven"] is False
    assert eviction["pods"] == []


def test_pods_on_their_way_out_count() -> None:
    """Terminating pods free their requests, and are not named again."""
    leaving = mid_pod("leaving", "2000", deletionTimestamp="2026-11-21T12:00:50Z")
    (said,) = deficits("midCPUThresholdPercent=20", pods=(leaving,))
    assert said == "deficit: Mid pods that are on their way out end it"


def test_spared_pods_say_why() -> None:
    """A pod that is never evicted is named with the reason, and what stays short is said."""
    owner = {"kind": "DaemonSet", "name": "d", "controller": True, "apiVersion": "apps/v1", "uid": "u"}
    protected = mid_pod("agent", "4000", ownerReferences=[owner], creationTimestamp="2026-11-21T11:59:00Z")
    notes = deficits(SHORT, pods=(protected,))
    assert any("shop/agent stays: it is of a DaemonSet" in note for note in notes)
    assert any("would still be short after that" in note for note in notes)


def test_json_of_eviction() -> None:
    """For programs: mode, proof, and every pod with its priority and requests."""
    eviction = as_json(explained("web-1", SHORT))["eviction"]
    assert eviction["mode"] == "dry-run"
    assert eviction["proven"] is True
    assert eviction["short"]["cpuMilli"] == 1500
    assert [pod["pod"] for pod in eviction["pods"]] == ["shop/nightly-report"]
    assert eviction["pods"][0]["cpuMilli"] == 3000
    assert eviction["stillShort"] == {"cpuMilli": 0, "memoryBytes": 0}


def test_doubt_is_named() -> None:
    """An unready prediction evicts no pod by itself; explain names the victims otherwise."""
    metric = named("nodeMetrics", "web-1")
    metric["status"]["conditions"] = [{"type": names.CONDITION_PREDICTION_READY, "status": "False", "reason": "Cold"}]
    metric["status"]["prodReclaimableMetric"] = {"resource": {"resources": {"cpu": "0", "memory": "0"}}}
    said = [
        note
        for note in findings(explained("web-1", NONE_UNALLOCATED, node_metric=metric))
        if note.startswith("deficit: ")
    ]
    assert said[0].endswith("so no Mid pod is evicted")
    assert "not known: the prediction is not ready (condition PredictionReady)" in said[1]
    assert "first to go: shop/nightly-report" in said[1]
