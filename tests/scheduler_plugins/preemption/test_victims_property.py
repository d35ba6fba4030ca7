"""Whom CapacityScheduling evicts, on random clusters: against an independent working out of the rules."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler_plugins.preemption.fit import FitModel
from scheduler_plugins.preemption.selection.context import PreemptionContext
from scheduler_plugins.preemption.selection.decide import search
from scheduler_plugins.preemption.selection.victims import Candidate, loss, pick, select_victims
from scheduler_plugins.quota.pod import QuotaPod
from tests import golden
from tests.golden.adapters.capacity_preemption import OPERATIONS, cluster_of
from tests.golden.adapters.elasticquota import NOW
from tests.scheduler_plugins.preemption.random_clusters import vector

SEEDS: Final = range(50)
EACH: Final = 8


def vectors(seed: int, **options: bool) -> list[dict[str, Any]]:
    return [vector(EACH * seed + index, **options) for index in range(EACH)]


@pytest.mark.parametrize("seed", SEEDS)
def test_search_finds_the_least_loss(seed: int) -> None:
    """On few nodes the search finds what a comparison of all finds; if that is none, it says why of every one."""
    for given in vectors(seed, nominated=seed % 2 == 0):
        cluster, pod = cluster_of(given), QuotaPod.from_json(given["preemptor"])
        fitting, context = FitModel(pod, cluster, cluster.nominations(NOW)), PreemptionContext.of(pod, cluster, NOW)
        found = [select_victims(context, node, fitting.misfit) for node in cluster.nodes]
        candidates = [each for each in found if isinstance(each, Candidate) and each.admitted]

        result = search(context, list(cluster.nodes), fitting.misfit, lambda each: None if each.admitted else "no")

        if candidates:
            assert result.best is not None
            assert loss(result.best) == loss(pick(candidates)), given
        else:
            assert result.best is None
            assert result.rejected.keys() == set(cluster.nodes), given


def test_random_clusters_are_various() -> None:
    """The random clusters hold every way out: a candidate, several, several victims, violated budgets, each code."""
    seen = set()
    for seed in SEEDS:
        for given in vectors(seed):
            answer = OPERATIONS["preempt"](given)
            seen |= {"several"} if len(answer["candidates"]) > 1 else set()
            for candidate in answer["candidates"]:
                seen |= {"victims"} if len(candidate["victims"]) > 1 else set()
                seen |= {"violation"} if candidate["numPDBViolations"] else set()
                homes = {victim.partition("/")[0] for victim in candidate["victims"]}
                seen.add("own" if homes == {given["preemptor"]["metadata"]["namespace"]} else "others")
            seen |= {each["code"] for each in answer["rejectedNodes"].values()}

    wanted = {"several", "victims", "violation", "own", "others"}
    assert seen == wanted | {"Unschedulable", "UnschedulableAndUnresolvable", "Error"}


def test_words_are_upstreams() -> None:
    vectors_file = Path(golden.__file__).parent / "vectors" / "capacity_preemption.json"
    compared = 0
    for each in json.loads(vectors_file.read_text(encoding="utf-8")):
        if each["input"]["op"] == "preempt":
            answered = OPERATIONS["preempt"](each["input"])
            for part in ("preFilter", "postFilter", "rejectedNodes"):
                expected = each["expected"].get(part)
                told = _messages(answered[part]) if expected is not None else {}
                assert told.items() >= _messages(expected or {}).items(), each["name"]
                compared += len(_messages(expected or {}))
    assert compared


def _messages(part: Mapping[str, Any]) -> dict[str, str]:
    found = {"": part["message"]} if "message" in part else {}
    return found | {key: each["message"] for key, each in part.items() if isinstance(each, dict) and "message" in each}
