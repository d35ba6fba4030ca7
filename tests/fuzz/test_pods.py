"""Pods as an API server or a kubelet might send them."""

from agent.pods import PodRef, pod_ref
from crds import names
from crds.priority import PriorityBand, QoS
from tests.fuzz.inputs import Json, objects
from tests.fuzz.originals import POD
from tests.fuzz.strength import answer_or_refusal, fuzz

STATIC = {**POD, "spec": {"priority": 2000001000, "containers": [{"name": "etcd"}]}}
ONLY_LABELS = {"metadata": {"name": "a", "uid": "1", "labels": {names.LABEL_QOS: "BE"}}, "spec": {"containers": []}}
LARGEST = 2**63


@fuzz(pod=objects(POD, STATIC, ONLY_LABELS))
def test_pod(pod: Json) -> None:
    """A pod is understood in the types that the agent counts on, or left out with its name and the field."""
    ref = answer_or_refusal(lambda: pod_ref(pod), ValueError, "pod ")
    if ref is not None:
        _check(ref)


def _check(ref: PodRef) -> None:
    texts = (ref.uid, ref.namespace, ref.name, ref.priority_label, ref.cgroup_uid)
    assert all(type(text) is str for text in texts)
    assert ref.uid
    assert ref.cgroup_uid
    assert ref.workload is None or isinstance(ref.workload, str)
    assert ref.band in set(PriorityBand) - {PriorityBand.NONE}
    assert ref.qos in set(QoS)
    for amounts in (ref.requests, ref.limits):
        assert amounts.keys() <= {"cpu", "memory"}
        assert all(0 <= amount < LARGEST for amount in amounts.values())
    assert 0.0 <= ref.created < 1e12
    assert type(ref.terminal) is bool
    assert type(ref.running) is bool
