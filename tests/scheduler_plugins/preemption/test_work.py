"""The amount of work for many waiting pods, and the share of it that is done in a period."""

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler_plugins.preemption.controller import WORK_SHARE
from scheduler_plugins.preemption.evaluator import OWN_MAX
from scheduler_plugins.preemption.selection.decide import Decision, Undecided
from scheduler_plugins.quota.pod import QuotaPod
from tests.scheduler_plugins.preemption.plays import Play

INDEX = "batch.kubernetes.io/job-completion-index"
Json = dict[str, Any]


def _wait(play: Play, count: int, gpus: int = 5, namespace: str = "b", **spec: Any) -> None:  # noqa: ANN401
    """Have the pods of an indexed Job wait, as the API server lists them: each with its own label and volume."""
    for number in range(count):
        token = {"name": f"kube-api-access-{number:05}", "projected": {"sources": []}}
        play.wait(namespace, f"job-{number}", gpus, hostname=f"job-{number}", volumes=[token], **spec)
        play.pod(f"job-{number}")["metadata"]["labels"] = {INDEX: str(number), "job-name": "job"}
    play.watch()


class Evaluated:
    def __init__(self, play: Play, seconds: float = 0.0) -> None:
        self.pods: list[str] = []
        evaluator = play.controller._evaluator

        def counted(pod: QuotaPod, *given: Any, **more: Any) -> Decision | Undecided:  # noqa: ANN401
            self.pods.append(pod.name)
            play.now += seconds
            return evaluator(pod, *given, **more)

        play.controller._evaluator = counted  # type: ignore[assignment]


def _repel(play: Play, selector: Mapping[str, Any]) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "namespaces": ["b"], "labelSelector": dict(selector)}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    play.add("a", "shy", 0, {"nodeName": "n1", "affinity": affinity}, {"phase": "Running"})
    play.watch()


@pytest.mark.parametrize(
    ("selector", "decided"),
    [
        (None, 1),
        ({"matchLabels": {"job-name": "other"}}, 1),
        ({"matchExpressions": [{"key": INDEX, "operator": "In", "values": ["3"]}]}, 20),
        ({"matchLabels": {INDEX: "3"}}, 20),
    ],
)
async def test_labels_that_are_read_count(selector: Mapping[str, Any] | None, decided: int) -> None:
    """A label that an anti-affinity selects distinguishes pods from the next round on; no other label does."""
    play = Play()
    play.end("b1")
    _wait(play, 20)
    if selector is not None:
        _repel(play, selector)
    evaluated = Evaluated(play)
    await play.controller.reconcile()
    assert len(evaluated.pods) == decided


async def test_decisive_fields_distinguish_pods() -> None:
    play = Play()
    play.end("b1")
    _wait(play, 4)
    play.pod("job-1")["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    play.pod("job-2")["metadata"]["labels"]["koordinator.sh/priority-class"] = "koord-batch"
    play.pod("job-3")["spec"]["nodeSelector"] = {"disk": "ssd"}
    play.watch()
    evaluated = Evaluated(play)
    await play.controller.reconcile()
    assert len(evaluated.pods) == 4


async def test_share_of_a_core() -> None:
    play = Play()
    play.end("b1")
    _wait(play, 40)
    _repel(play, {"matchLabels": {INDEX: "3"}})
    evaluated = Evaluated(play, seconds=0.03)
    observed: list[int] = []
    begun = play.now
    while len(set(evaluated.pods)) < 40:
        before = len(evaluated.pods)
        await play.controller.reconcile()
        observed.append(len(evaluated.pods) - before)
        play.now += 0.05
        assert len(observed) < 2000, "a pod is never decided"
    assert max(observed) <= 5
    assert 0.03 * (len(evaluated.pods) - max(observed)) <= WORK_SHARE * (play.now - begun)


async def test_own_max_does_not_depend_on_nodes() -> None:
    play, alone = Play(), Undecided(OWN_MAX, {})
    play.end("b1")
    _wait(play, 3, gpus=3, namespace="a")
    evaluator, waits = play.controller._evaluator, play.world.cluster.pods["a/job-0"]
    assert evaluator(waits, play.now) == alone
    play.pod("a1")["spec"]["priority"] = -1
    play.watch()
    assert evaluator(waits, play.now) != alone
    play.end("a1")
    assert evaluator(waits, play.now) == alone
    play.end("a2")
    assert evaluator(waits, play.now) != alone
