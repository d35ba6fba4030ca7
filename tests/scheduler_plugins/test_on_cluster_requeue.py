"""Rejected pods on the real kube-scheduler: requeued when a reason ends, and not before; with an Event.

kube-scheduler tries rejected pods again when any pod of the cluster is bound, so the tests bind no pod while they
wait for a requeue.
"""

import time
from collections.abc import Iterator
from typing import Final

import pytest

from crds.names import ANNOTATION_SCHEDULING_RETRY
from tests.audited import audited
from tests.scheduler_plugins.extenders import Extender, profile, until
from tests.scheduler_plugins.stage import Stage, Usage
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

NAME: Final = "requeue"
AWAKE, ASLEEP = "headroom-awake", "headroom-asleep"
HOT, COOL = Usage(30), Usage(2)
EXCEEDS = "node(s) cpu usage exceed threshold"
COUNTERFACTUAL_SECONDS: Final = 10.0  # watch of a pod without a requeue
ATTEMPTS: Final = 4  # number of attempts


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    with Stage.open(cluster, NAME, 6) as stage:
        stage.add(AWAKE, profile())
        stage.add(ASLEEP, profile(requeue={"enabled": False, "events": False}))
        stage.wait()
        yield stage


def _waiting(extender: Extender, count: int) -> None:
    until(lambda: extender.metric("waiting_pods") == count, f"{count} pods waiting in {extender.name}")


def _patches(stage: Stage) -> list[str]:
    ours = audited(stage.cluster, '"headroom-scheduler"', '"patch"')
    patched = [event["objectRef"] for event in ours if event["verb"] == "patch"]
    return [about["name"] for about in patched if (about["resource"], about.get("namespace")) == ("pods", NAME)]


def _notes(stage: Stage, name: str) -> list[str]:
    items = stage.cluster.api.get(f"/apis/events.k8s.io/v1/namespaces/{NAME}/events")["items"]
    ours = (event for event in items if event["reason"] == "HeadroomRefused" and event["regarding"]["name"] == name)
    return [event["note"] for event in ours if event["reportingController"] == "headroom-scheduler"]


def _wait_for_requeue(stage: Stage, name: str, node: str) -> None:
    """Cool a node, and wait until the pod is bound there; kube-scheduler by itself takes five minutes."""
    started = time.monotonic()
    stage.report({node: COOL})
    assert stage.placed(name) == [node]
    print(f"{name}: bound {time.monotonic() - started:.1f} s after the node cooled")


def test_cooled_node_requeues_pod(stage: Stage) -> None:
    node = stage.nodes[0]
    stage.settle({node: HOT})
    stage.create(stage.pod("cooled", AWAKE, selector={"kubernetes.io/hostname": node}))
    stage.refused("cooled", EXCEEDS)
    _waiting(stage.extenders[0], 1)
    stage.extenders[0].quiet()
    (note,) = until(lambda: _notes(stage, "cooled"), "the event")
    assert f"1 {EXCEEDS}" in note
    assert f"Closest is {node}: cpu" in note
    assert "usageThresholds" in note
    print(note)
    _wait_for_requeue(stage, "cooled", node)
    assert ANNOTATION_SCHEDULING_RETRY in stage.read("cooled")["metadata"]["annotations"]
    _waiting(stage.extenders[0], 0)


def _stays_pending(stage: Stage, name: str, node: str) -> bool:
    stage.settle({node: HOT})
    stage.create(stage.pod(name, ASLEEP, selector={"kubernetes.io/hostname": node}))
    stage.refused(name, EXCEEDS)
    stage.extenders[1].quiet()
    stage.report({node: COOL})
    until(lambda: stage.extenders[1].passing(node), "the extender seeing the cool node")
    watched_until = time.monotonic() + COUNTERFACTUAL_SECONDS
    while time.monotonic() < watched_until:
        if stage.where()[name]:
            return False
        time.sleep(0.5)
    return True


@pytest.mark.long
def test_no_requeue_when_disabled(stage: Stage) -> None:
    """With requeue disabled the pod stays pending though its node is cool; an annotation requeues it."""
    # The end of any pod of the cluster requeues all waiting pods, and pods of other tests may end late.
    names = (f"asleep-{number}" for number in range(ATTEMPTS))
    asleep = next((name for name in names if _stays_pending(stage, name, stage.nodes[2])), None)
    assert asleep is not None
    assert not any(name.startswith("asleep") for name in _patches(stage))
    by_hand = {"metadata": {"annotations": {ANNOTATION_SCHEDULING_RETRY: "by hand"}}}
    stage.cluster.api.merge(f"{stage.path}/{asleep}", by_hand)
    assert stage.placed(asleep) == [stage.nodes[2]]


@pytest.mark.long
def test_restart_recovers_all_pods(stage: Stage) -> None:
    node, awake = stage.nodes[4], stage.extenders[0]
    stage.settle({node: HOT})
    stage.create(stage.pod("restarted", AWAKE, selector={"kubernetes.io/hostname": node}))
    stage.refused("restarted", EXCEEDS)
    awake.quiet()
    awake.kill()
    awake.restart()
    stage.report({node: COOL})
    assert stage.placed("restarted") == [node]
    assert ANNOTATION_SCHEDULING_RETRY in stage.read("restarted")["metadata"]["annotations"]
