"""The annotation for Cluster Autoscaler of pods that their quota refuses, and the causes of waiting."""

from typing import Any

import pytest

from crds.names import ANNOTATION_SCALE_UP_DELAY, ANNOTATION_SCHEDULING_RETRY
from headroom.cluster.typed_pod import typed_pod
from scheduler_plugins.framework.verdict import Refusal, Verdict
from scheduler_plugins.requeue.settings import RequeueSettings
from scheduler_plugins.requeue.unschedulable import NEVER
from scheduler_plugins.snapshot.arrays import Nodes
from scheduler_plugins.snapshot.pod import PodRequest
from tests.scheduler_plugins.requeue.site import FreeCpu, Site, forbidden, new_pod


class Quota(FreeCpu):
    """Refuses all pods as such while it is full, and hot nodes for their load."""

    full = True

    def pre_filter(self, _pod: PodRequest, _nodes: Nodes) -> Refusal | None:
        return Refusal("ElasticQuota a/q: cpu 4 + requested 1 > max 4") if self.full else None

    def filter(self, pod: PodRequest, nodes: Nodes) -> Verdict:
        verdict = super().filter(pod, nodes)
        return Verdict(verdict.refused, [Refusal("node(s) hot", by_load=True)])


def site(**settings: Any) -> tuple[Site, Quota]:  # noqa: ANN401 - of RequeueSettings
    quota = Quota()
    made = Site(RequeueSettings(**settings), quota)
    made.set_free(a=0)
    return made, quota


def wait(made: Site, *names: str, annotations: dict[str, str] | None = None) -> None:
    """Pods that were refused, as kube-scheduler sends them."""
    for name in names:
        item = new_pod(name)
        item["metadata"]["annotations"] = dict(annotations or {})
        made.pods[name] = item
        made.refused(made.cache.read(item), item, ["a"], Verdict.all_pass(0))


def annotations(made: Site) -> list[tuple[str, dict[str, str | None]]]:
    """The patches so far, by name of the pod, without the time of requeueing; they are removed."""
    result = [
        (
            name,
            {
                key: value
                for key, value in body["metadata"]["annotations"].items()
                if key != ANNOTATION_SCHEDULING_RETRY
            },
        )
        for name, (_, body) in zip(made.api.names, made.api.patches, strict=True)
    ]
    made.api.patches.clear()
    return result


SET, REMOVED = {ANNOTATION_SCALE_UP_DELAY: NEVER}, {ANNOTATION_SCALE_UP_DELAY: None}


async def test_pod_of_a_full_quota_adds_no_node() -> None:
    """The annotation is set once, stays while the quota is full, and is removed with the requeueing patch."""
    made, quota = site()
    wait(made, "p")
    assert await made.reconcile() == []
    assert annotations(made) == [("p", SET)]
    await made.reconcile()
    assert (annotations(made), made.counted("waiting_pods_by_cause", cause="quota")) == ([], 1)
    quota.full = False
    made.set_free(a=5000)
    assert await made.reconcile(after=120) == ["p"]
    assert annotations(made) == [("p", REMOVED)]


async def test_admitted_pod_may_add_a_node() -> None:
    """When the quota admits the pod and all nodes are hot, the annotation goes, and the cause is load."""
    made, quota = site()
    wait(made, "p")
    await made.reconcile()
    quota.full = False
    annotations(made)
    assert await made.reconcile(after=120) == []
    assert annotations(made) == [("p", REMOVED)]
    assert [made.counted("waiting_pods_by_cause", cause=cause) for cause in ("quota", "load", "other")] == [0, 1, 0]


async def test_placed_pod_loses_the_annotation() -> None:
    """A pod that kube-scheduler places by itself loses it, too."""
    made, quota = site()
    wait(made, "p")
    await made.reconcile()
    annotations(made)
    quota.full = False
    made.set_free(a=5000)
    assert made.retry("p") == [True]
    await made.reconcile()
    assert annotations(made) == [("p", REMOVED)]


@pytest.mark.parametrize("value", ["600s", "0s", "bad"])
async def test_value_of_another_is_not_changed(value: str) -> None:
    made, quota = site()
    wait(made, "p", annotations={ANNOTATION_SCALE_UP_DELAY: value})
    await made.reconcile()
    quota.full = False
    await made.reconcile(after=120)
    assert annotations(made) == []


async def test_watch_keeps_the_annotation() -> None:
    """The watch reads the annotation, so that a later change of the pod does not hide it."""
    made, quota = site()
    wait(made, "p")
    await made.reconcile()
    made.pods["p"]["metadata"]["annotations"] = SET
    made.unschedulable.put_pod(typed_pod(made.pods["p"]))
    annotations(made)
    quota.full = False
    await made.reconcile(after=120)
    assert annotations(made) == [("p", REMOVED)]


async def test_restart_continues() -> None:
    """A pod that an earlier process annotated is not annotated again, and loses it when its quota admits it."""
    made, quota = site()
    wait(made, "p", annotations={ANNOTATION_SCALE_UP_DELAY: NEVER})
    await made.reconcile()
    assert annotations(made) == []
    quota.full = False
    await made.reconcile(after=120)
    assert annotations(made) == [("p", REMOVED)]


@pytest.mark.parametrize("restart", [False, True])
async def test_quota_admits_a_pod_that_kube_scheduler_rejects(*, restart: bool) -> None:
    """While the cluster is full the extender gets no request for it; the annotation goes with the quota's refusal."""
    made, quota = site()
    item = new_pod("p")
    item["metadata"]["annotations"] = dict(SET)
    if restart:
        made.unschedulable.put_pod(typed_pod(item))
        made.unschedulable.pods_listed()
    else:
        wait(made, "p", annotations=SET)
    for _ in range(3):
        await made.reconcile(after=1801)
    assert annotations(made) == []
    quota.full = False
    await made.reconcile(after=120)
    assert annotations(made) == [("p", REMOVED)]


async def test_pods_behind_the_admitted_one_stay_annotated() -> None:
    """A quota that admits one more pod must not release all: Cluster Autoscaler would add nodes for them."""
    made, quota = site()
    wait(made, *"abcdef")
    await made.reconcile()
    annotations(made)
    quota.full = False
    made.set_free(a=5000)
    assert await made.reconcile(after=120) == ["a"]
    assert annotations(made) == [("a", REMOVED)]


async def test_rate_is_limited() -> None:
    made, _ = site(patches_per_second=1, patch_burst=3)
    wait(made, *"abcdef")
    counts = []
    for _ in range(4):
        await made.reconcile()
        counts.append(len(annotations(made)))
    assert counts == [3, 1, 1, 1]


async def test_missing_right_stops_it() -> None:
    """Without the right to patch pods one patch is tried, and again after a minute."""
    made, _ = site()
    made.api.failures[""] = forbidden()
    wait(made, "p", "q")
    for _ in range(5):
        await made.reconcile()
    assert len(annotations(made)) == 1
    await made.reconcile(after=61)
    assert len(annotations(made)) == 1


async def test_setting_turns_it_off() -> None:
    made, _ = site(scale_up_delay=False)
    wait(made, "p")
    await made.reconcile()
    assert annotations(made) == []
