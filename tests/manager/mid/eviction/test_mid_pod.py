"""What is kept of a pod for eviction."""

from crds import names
from manager.inputs import PodInputs
from manager.inputs.pod import MidPod
from tests.manager.mid.eviction.made_mid import mid
from tests.support.objects import NOW, pod


def test_mid_pod_is_reduced() -> None:
    """Priority, age, workload without what changes from rollout to rollout, and whether it is on its way out."""
    made = mid("web-7f9-x1", priority=7300, age=90, owner=("ReplicaSet", "web-7f9"), terminating=True)
    made["metadata"]["labels"][names.LABEL_POD_TEMPLATE_HASH] = "7f9"
    kept = PodInputs.from_object(made).mid
    assert kept == MidPod(7300, NOW - 90, terminating=True, workload="shop/ReplicaSet/web")


def test_bare_pod_is_its_own_workload() -> None:
    """A pod without controller stands for itself, and one without a time counts as old."""
    made = mid("bare")
    del made["metadata"]["creationTimestamp"]
    assert PodInputs.from_object(made).mid == MidPod(7000, 0.0, terminating=False, workload="shop/Pod/bare")


def test_other_pods_carry_nothing() -> None:
    """A pod without Mid requests, whatever its label, has no such part: there may be 150,000 of them."""
    labelled = pod("label-only", {"cpu": "1"}, labels={names.LABEL_PRIORITY_CLASS: "koord-mid"})
    assert PodInputs.from_object(labelled).mid is None
    assert PodInputs.from_object(pod("prod", {"cpu": "1"})).mid is None


def test_owner_must_be_controller() -> None:
    """A DaemonSet that merely holds a reference to a pod does not bring it back."""
    made = mid("m", owner=("DaemonSet", "d"))
    made["metadata"]["ownerReferences"][0]["controller"] = False
    kept = PodInputs.from_object(made).mid
    assert kept is not None
    assert kept.kept == ""


def test_annotations_keep_nobody() -> None:
    """A pod that only says it is static is evicted like any other: its node would not start it again."""
    forged = {
        names.ANNOTATION_CONFIG_SOURCE: "file",
        names.ANNOTATION_CONFIG_MIRROR: "x",
        "kubernetes.io/config.hash": "x",
    }
    for owner in (None, ("ReplicaSet", "web"), ("Node", "another")):
        kept = PodInputs.from_object(mid("m", owner=owner, annotations=forged)).mid
        assert kept is not None
        assert kept.kept == ""
