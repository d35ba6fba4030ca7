"""What the API server and the kubelet send: events of a watch, lists, whole answers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from agent.host.cgroup import CgroupTree, detect
from agent.pods import PodRef
from agent.settings import KubeletSettings
from agent.sources.kubelet import KubeletPods
from agent.sources.node import ApiNode
from agent.sources.pod import ApiPods, PodSource
from headroom import kube
from headroom.kube.errors import ApiUnavailable
from headroom.kube.watch import _event, _Gone
from tests.fuzz.inputs import Json, any_json, damaged, objects
from tests.fuzz.originals import NODE, POD
from tests.fuzz.strength import answer_or_refusal, fuzz

NOBODY: Any = None  # nothing is asked in these tests
LINE = json.dumps({"type": "MODIFIED", "object": {**POD, "metadata": {**POD["metadata"], "resourceVersion": "7"}}})
TYPES = st.sampled_from(("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "?"))
ANSWER = {"kind": "PodList", "items": [POD, {**POD, "metadata": {"name": "b", "uid": "b"}}]}
DEEP = st.integers(1, 100_000).map(lambda levels: "[" * levels)


@fuzz(line=damaged(LINE) | any_json().map(json.dumps) | DEEP | st.text())
def test_watch_event(line: str) -> None:
    """A line of a watch is an event, the end of the watch, or unusable in one line that quotes its beginning."""
    try:
        event = answer_or_refusal(lambda: _event(line.encode(errors="replace")), ApiUnavailable, "not an event")
    except _Gone:
        return
    assert event is None or event["object"]["metadata"]["resourceVersion"] is not NOBODY


@fuzz(kind=TYPES, pod=objects(POD), nodes=st.lists(objects(NODE), max_size=2), pods=st.lists(objects(POD) | any_json()))
def test_watched_objects(kind: str, pod: Json, nodes: list[Json], pods: list[Json]) -> None:
    """Whatever is listed or changes, the source holds pods and facts, and goes on."""
    source, node = ApiPods(NOBODY, "worker"), ApiNode(NOBODY, "worker")
    refused: list[str] = []
    source.on_rejected = node.on_rejected = refused.append
    source.apply(kube.Relisted(pods))
    assert len(source.pods()) + refused.count("pod") <= len(pods)
    if isinstance(pod, dict) and isinstance(pod.get("metadata"), dict):  # else it was no event
        source.apply(kube.Changed(kind, pod))
    node.apply(kube.Relisted(nodes))
    _check(source)
    assert node.kubelet is None or (isinstance(node.kubelet[0], str) and 0 < node.kubelet[1] < 65536)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> CgroupTree:
    """A machine whose cgroups hold one pod."""
    root: Path = tmp_path_factory.mktemp("cgroup")
    (root / f"kubepods/burstable/pod{POD['metadata']['uid']}").mkdir(parents=True)
    (root / "cgroup.controllers").write_text("cpu memory")
    found = CgroupTree(detect(root))
    found.locate()
    return found


class _Kubelet:
    """Answers with anything (fake)."""

    def __init__(self, answer: Json) -> None:
        self.answer = answer
        self.connection = kube.Connection("https://kubelet", None, lambda: None)

    async def get(self, path: str) -> Json:
        """The answer."""
        del path
        return self.answer


@fuzz(answers=st.lists(objects(ANSWER), min_size=1, max_size=3))
def test_kubelet_answer(tree: CgroupTree, answers: list[dict[str, Json]]) -> None:
    """Whatever a kubelet answers, its pods are pods, what is left out is named, and it is asked again."""
    source = KubeletPods(KubeletSettings(), NOBODY, lambda: None, tree)
    for answer in answers:
        if isinstance(answer, dict):  # the client refuses anything else
            wait = asyncio.run(source.poll(_Kubelet(answer)))  # type: ignore[arg-type] # a fake
            assert 0.0 < wait < 3600.0
    assert "\n" not in source.problem
    _check(source)


def _check(source: PodSource) -> None:
    assert all(isinstance(pod, PodRef) and isinstance(pod.uid, str) for pod in source.pods())
