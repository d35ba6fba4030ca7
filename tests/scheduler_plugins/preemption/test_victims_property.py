"""The victims of CapacityScheduling, on random clusters and on large ones."""

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from scheduler_plugins.preemption.fit import FitModel
from scheduler_plugins.preemption.selection.context import PreemptionContext
from scheduler_plugins.preemption.selection.decide import Decision, candidates_needed, decide, search
from scheduler_plugins.preemption.selection.victims import Candidate, loss, pick, select_victims
from scheduler_plugins.quota.pod import QuotaPod
from tests import golden
from tests.golden.adapters.capacity_preemption import OPERATIONS, cluster_of
from tests.golden.adapters.elasticquota import NOW as THEN
from tests.scheduler_plugins.preemption.worlds import COUNT, NOW, World

GPU: Final = "nvidia.com/gpu"
NAMESPACES: Final = ("a", "b", "c", "free", "more")
"""Namespaces; the last two have no quota."""

_PRIORITIES: Final = (-10, 0, 0, 0, 5, 1000)
_FIRST, _LAST = 0, 60
_SPARE: Final = {"cpu": "12", GPU: "12"}


def vector(seed: int, *, nominated: bool = True) -> dict[str, Any]:
    random = Random(seed)  # noqa: S311 - nothing secret
    nodes = [f"n{index}" for index in range(random.randint(1, 4))]
    starts = random.sample(range(_FIRST, _LAST), 40)
    pods = [
        _pod(random, f"p{index}", node=random.choice(nodes), second=starts.pop())
        for index in range(random.randint(0, 20))
    ]
    preemptor = _pod(random, "preemptor", node="", second=None)
    preemptor["spec"]["priority"] = random.choice((0, 5, 1000))
    quotas = [_quota(random, namespace) for namespace in NAMESPACES[:3] if random.random() < 0.9]
    if random.random() < 0.7:
        quotas.append({"metadata": {"name": "quota", "namespace": "spare"}, "spec": {"min": _SPARE}})
    if random.random() < 0.3:
        preemptor["status"]["nominatedNodeName"] = random.choice(nodes)
    waiting = [_pod(random, f"w{index}", node="", second=None) for index in range(random.randint(0, 3) * nominated)]
    for pod in waiting:
        pod["status"]["nominatedNodeName"] = random.choice([*nodes, "elsewhere"])
    statuses = {node: "UnschedulableAndUnresolvable" for node in nodes if random.random() < 0.1}
    return {
        "op": "preempt",
        "nodes": [_node(random, name) for name in nodes],
        "elasticQuotas": quotas,
        "preemptor": preemptor,
        "pods": pods,
        "nominatedPods": waiting,
        "podDisruptionBudgets": [_budget(random, f"pdb{index}") for index in range(random.choice((0, 1, 4, 8)))],
        "filterStatuses": statuses,
    }


def _node(random: Random, name: str) -> dict[str, Any]:
    has = {"pods": random.choice(("4", "8", "110")), "cpu": random.choice(("4", "8", "12")), "memory": "64Gi"}
    if random.random() < 0.8:
        has[GPU] = random.choice(("2", "4", "8"))
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": has}}


def _quota(random: Random, namespace: str) -> dict[str, Any]:
    least: dict[str, str] = {"cpu": str(random.choice((0, 2, 6, 12)))}
    if random.random() < 0.7:
        least[GPU] = str(random.choice((0, 1, 3, 6, 12)))
    spec: dict[str, Any] = {"min": least}
    if random.random() < 0.8:
        spec["max"] = {"cpu": str(int(least["cpu"]) + random.choice((0, 2, 8)))}
        if random.random() < 0.5:
            spec["max"][GPU] = str(random.choice((2, 4, 8)))
    return {"metadata": {"name": "quota", "namespace": namespace, "uid": f"quota-{namespace}"}, "spec": spec}


def _pod(random: Random, name: str, node: str, second: int | None) -> dict[str, Any]:
    requests = {"cpu": random.choice(("0", "500m", "1", "1", "2", "3"))}
    if random.random() < 0.5:
        requests[GPU] = random.choice(("0", "1", "1", "2", "3"))
    metadata: dict[str, Any] = {"name": name, "namespace": random.choice(NAMESPACES), "uid": name}
    if random.random() < 0.7:
        metadata["labels"] = {"app": random.choice("xyz")}
    if node and random.random() < 0.1:
        metadata["deletionTimestamp"] = "2024-01-01T01:00:00Z"
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    spec |= {"priority": random.choice(_PRIORITIES)} | ({"nodeName": node} if node else {})
    if random.random() < 0.1:
        spec["overhead"] = {"cpu": "250m"}
    status = {} if second is None else {"startTime": f"2024-01-01T00:00:{second:02}Z"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _budget(random: Random, name: str) -> dict[str, Any]:
    selector: Mapping[str, Any] = random.choice((*({"matchLabels": {"app": app}} for app in "xyz"), {}))
    status: dict[str, Any] = {"disruptionsAllowed": random.choice((0, 0, 1, 2))}
    if random.random() < 0.3:
        status["disruptedPods"] = {f"p{random.randint(0, 20)}": "2024-01-01T00:00:00Z"}
    metadata = {"name": name, "namespace": random.choice(NAMESPACES[:4]), "uid": name}
    return {"metadata": metadata, "spec": {"selector": selector}, "status": status}


SEEDS: Final = range(50)
EACH: Final = 8


def vectors(seed: int, **options: bool) -> list[dict[str, Any]]:
    return [vector(EACH * seed + index, **options) for index in range(EACH)]


@pytest.mark.parametrize("seed", SEEDS)
def test_search_finds_the_least_loss(seed: int) -> None:
    for inputs in vectors(seed, nominated=seed % 2 == 0):
        cluster, pod = cluster_of(inputs), QuotaPod.from_json(inputs["preemptor"])
        fitting, context = FitModel(pod, cluster, cluster.nominations(THEN)), PreemptionContext.of(pod, cluster, THEN)
        matches = [select_victims(context, node, fitting.misfit) for node in cluster.nodes]
        candidates = [match for match in matches if isinstance(match, Candidate) and match.admitted]

        result = search(context, list(cluster.nodes), fitting.misfit, lambda each: None if each.admitted else "no")

        if candidates:
            assert result.best is not None
            assert loss(result.best) == loss(pick(candidates)), inputs
        else:
            assert result.best is None
            assert result.rejected.keys() == set(cluster.nodes), inputs


def test_random_clusters_vary() -> None:
    observed = set()
    for seed in SEEDS:
        for inputs in vectors(seed):
            answer = OPERATIONS["preempt"](inputs)
            observed |= {"several"} if len(answer["candidates"]) > 1 else set()
            for candidate in answer["candidates"]:
                observed |= {"victims"} if len(candidate["victims"]) > 1 else set()
                observed |= {"violation"} if candidate["numPDBViolations"] else set()
                homes = {victim.partition("/")[0] for victim in candidate["victims"]}
                observed.add("own" if homes == {inputs["preemptor"]["metadata"]["namespace"]} else "others")
            observed |= {node["code"] for node in answer["rejectedNodes"].values()}

    wanted = {"several", "victims", "violation", "own", "others"}
    assert observed == wanted | {"Unschedulable", "UnschedulableAndUnresolvable", "Error"}


def test_messages_match_upstream() -> None:
    vectors_file = Path(golden.__file__).parent / "vectors" / "capacity_preemption.json"
    compared = 0
    for load in json.loads(vectors_file.read_text(encoding="utf-8")):
        if load["input"]["op"] == "preempt":
            answered = OPERATIONS["preempt"](load["input"])
            for part in ("preFilter", "postFilter", "rejectedNodes"):
                expected = load["expected"].get(part)
                texts = _messages(answered[part]) if expected is not None else {}
                assert texts.items() >= _messages(expected or {}).items(), load["name"]
                compared += len(_messages(expected or {}))
    assert compared


def _messages(part: Mapping[str, Any]) -> dict[str, str]:
    result = {"": part["message"]} if "message" in part else {}
    return result | {key: each["message"] for key, each in part.items() if isinstance(each, dict) and "message" in each}


def _borrowed(nodes: int) -> World:
    world = World({f"n{index:03}": 1 for index in range(nodes)}, {"a": (0, nodes), "b": (nodes, nodes)})
    for index in range(nodes):
        world.run(f"a/p{index:03}", f"n{index:03}", 1, priority=nodes - index, labels={"app": f"p{index:03}"})
    return world


def _waiting(world: World, name: str = "b1") -> QuotaPod:
    return world.wait(f"b/{name}", 1)


def _tried(world: World, pod: QuotaPod, **options: object) -> tuple[list[str], Decision]:
    fit, tried = FitModel(pod, world.cluster, ()), dict[str, None]()

    def misfit(node: str, without: AbstractSet[str]) -> str | None:
        if without:
            tried[node] = None
        return fit.misfit(node, without)

    decision = decide(pod, world.cluster, NOW, misfit, **options)  # type: ignore[arg-type]
    assert isinstance(decision, Decision)
    return list(tried), decision


@pytest.mark.parametrize(
    ("nodes", "needed"), [(0, 0), (1, 1), (99, 99), (100, 100), (999, 100), (1010, 101), (5000, 500)]
)
def test_number_of_candidates(nodes: int, needed: int) -> None:
    assert candidates_needed(nodes) == needed


def test_search_ends_with_enough_candidates() -> None:
    """The search tries 100 of 300 nodes, from an offset on and round the end; the least loss is chosen."""
    world = _borrowed(300)
    tried, decision = _tried(world, _waiting(world))
    first = int(tried[0][1:])
    assert tried == [f"n{(first + step) % 300:03}" for step in range(100)]
    assert decision.node == max(tried)


def test_same_pod_same_candidates() -> None:
    world = _borrowed(300)
    pod = _waiting(world)
    assert _tried(world, pod) == _tried(world, pod)
    begins = {_tried(world, _waiting(world, f"other-{index}"))[0][0] for index in range(5)}
    assert len(begins) > 1


def test_nodes_that_do_not_help_do_not_count() -> None:
    world = _borrowed(300)
    for index in range(300):
        if index != 123:
            world.cluster.delete_pod(f"a/p{index:03}")
            world.run(f"free/f{index:03}", f"n{index:03}", 1)
    for pod in (_waiting(world, f"b{index}") for index in range(3)):
        assert _tried(world, pod)[1].node == "n123"


def test_violations_are_no_end() -> None:
    """Where all candidates so far violate a budget, further nodes are tried, as kube-scheduler does."""
    world = _borrowed(300)
    free = "n150"
    for index in range(300):
        if index != 150:
            world.protect("a", f"p{index:03}", name=f"budget-{index}")
    tried, decision = _tried(world, _waiting(world), **COUNT)
    assert (decision.node, decision.violations) == (free, 0)
    assert len(tried) == 100 or tried[-1] == free


def test_held_budgets_make_no_candidates() -> None:
    world = _borrowed(300)
    for index in range(300):
        if index != 7:
            world.protect("a", f"p{index:03}", name=f"budget-{index}")
    assert _tried(world, _waiting(world))[1].node == "n007"
