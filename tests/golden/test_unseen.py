"""Vectors that nobody recorded: rules hold for whatever the peer may be asked, not for the samples alone."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.fuzz.strength import fuzz
from tests.golden.__main__ import VECTORS
from tests.golden.adapters.colocation_config import OPERATIONS as OF_CONFIG
from tests.golden.adapters.nodemetric_policy import OPERATIONS as OF_POLICY
from tests.golden.peer import MODEL
from tests.golden.results import difference
from tests.golden.rules.colocation_config import synced
from tests.golden.rules.nodemetric_policy import spec
from tests.golden.runner import Outcome, judge
from tests.golden.second_opinion import config as second

Json = dict[str, Any]

AMOUNT = st.sampled_from(["0", "1m", "0.5m", "999m", "1", "1500m", "3", "7777m", "16", "64", "1k", "1Gi", "4G", "32Gi"])
LIST = st.fixed_dictionaries({"cpu": AMOUNT, "memory": AMOUNT}) | st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods"]), AMOUNT, max_size=3
)
PERCENT = st.sampled_from([0, 1, 7, 12, 29, 33, 50, 57, 99, 100])
RESERVATION = st.sampled_from(
    [
        '{"resources":{"cpu":"2","memory":"1Gi"}}', '{"reservedCPUs":"0-3,8"}', '{"reservedCPUs":"x"}', "", "no",
        '{"resources":{"cpu":"-1"}}', '{"resources":{"cpu":"9"},"reservedCPUs":"0"}', '{"resources":{"memory":"4G"}}',
    ]
)  # fmt: skip
RAW = st.sampled_from(['{"cpu":"8"}', '{"cpu":"8","memory":"8Gi"}', "no", "{}"])
MID_NAMES = ("kubernetes.io/mid-cpu", "kubernetes.io/mid-memory")


@st.composite
def _pods(draw: st.DrawFn) -> Json:
    requests = draw(LIST)
    if draw(st.integers(0, 3)) == 0:
        requests = {**requests, MID_NAMES[0]: "2000", MID_NAMES[1]: "1Gi"}
    pod: Json = {
        "name": draw(st.sampled_from("abc")),
        "namespace": "ns",
        "containers": [{"requests": requests}],
        "phase": draw(st.sampled_from(["Running", "Pending", "Succeeded", "Failed", "Unknown"])),
    }
    priority = draw(st.sampled_from([None, 0, 3000, 5500, 7000, 7999, 8500, 9000, 2_000_001_000]))
    if priority is not None:
        pod["priority"] = priority
    label = draw(st.sampled_from([None, "koord-prod", "koord-mid", "koord-batch", "odd"]))
    if label is not None:
        pod["labels"] = {"koordinator.sh/priority-class": label}
    return pod


USED_BY = st.fixed_dictionaries({"name": st.sampled_from("abc"), "namespace": st.just("ns"), "usage": LIST})
HOST = st.fixed_dictionaries(
    {"name": st.just("h"), "priority": st.sampled_from(["koord-prod", "koord-batch", "koord-mid", ""]), "usage": LIST}
)
METRIC = st.fixed_dictionaries(
    {"updateAgeSeconds": st.sampled_from([None, -100, 0, 20, 899, 900, 901, 5000])},
    optional={
        "nodeUsage": LIST,
        "systemUsage": LIST | st.none(),
        "prodReclaimable": LIST | st.none(),
        "podsMetric": st.lists(USED_BY, max_size=3),
        "hostApplications": st.lists(HOST, max_size=2),
    },
)
STRATEGY = st.fixed_dictionaries(
    {"degradeTimeMinutes": st.sampled_from([1, 15]), "enable": st.booleans()},
    optional={
        "midCPUThresholdPercent": PERCENT,
        "midMemoryThresholdPercent": PERCENT,
        "midUnallocatedPercent": PERCENT,
        "midReclaimMode": st.sampled_from(["static", "", "odd"]),
        "midStaticCPUReservedPercent": PERCENT | st.just(150),
        "midStaticMemoryReservedPercent": PERCENT,
    },
)
NODE = st.fixed_dictionaries(
    {"allocatable": LIST, "capacity": LIST},
    optional={
        "annotations": st.dictionaries(st.just("node.koordinator.sh/reservation"), RESERVATION)
        | st.dictionaries(st.just("node.koordinator.sh/raw-allocatable"), RAW)
    },
)
CALCULATE = st.fixed_dictionaries(
    {
        "op": st.just("calculate"),
        "node": NODE | st.none(),
        "nodeMetric": METRIC | st.none(),
        "pods": st.lists(_pods(), max_size=4) | st.none(),
        "strategy": STRATEGY | st.none(),
    }
)
NUMBER = st.sampled_from(["0", "1", "9", "10", "990", "999", "1k", "19800", "20k", "21k", "21001", "40G", "41G", "0.5"])
OFFER = st.dictionaries(st.sampled_from(MID_NAMES), NUMBER)
THRESHOLD = st.sampled_from([0.01, 0.05, 0.07, 0.1, 0.57, 1, 1.5, 5])
OFFERING = OFFER.map(lambda offer: {"allocatable": offer, "capacity": offer}) | OFFER.map(
    lambda offer: {"allocatable": offer}
)
RATIO = st.sampled_from(
    ["0.29", "0.57", "0.7", "1", "1.0", "1.15", "1.5", "-0.1", "abc", "1e-1", "", "0.005", ".5", "1e3"]
)
LABELS = st.dictionaries(
    st.sampled_from(
        [
            "node.koordinator.sh/cpu-reclaim-ratio",
            "node.koordinator.sh/memory-reclaim-ratio",
            "node.koordinator.sh/mid-static-cpu-reserved-ratio",
            "node.koordinator.sh/mid-static-memory-reserved-ratio",
        ]
    ),
    RATIO,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "enable": st.booleans(),
        "cpuReclaimThresholdPercent": st.sampled_from([-1, 0, 65, 100, 101]),
        "memoryReclaimThresholdPercent": st.sampled_from([-1, 0, 65, 100, 101]),
        "batchCPUThresholdPercent": st.sampled_from([-1, 0, 65, 100, 101]),
        "midCPUThresholdPercent": st.sampled_from([-1, 0, 50, 100, 101]),
        "midUnallocatedPercent": st.sampled_from([-1, 0, 50, 100, 101]),
        "midStaticCPUReservedPercent": st.sampled_from([-1, 0, 100, 101]),
        "metricReportIntervalSeconds": st.sampled_from([-1, 0, 1, 60, 10**9]),
        "degradeTimeMinutes": st.sampled_from([0, 1, 15, 10**9]),
        "resourceDiffThreshold": st.sampled_from([-0.1, 0, 0.0001, 0.1, 1, 1.5, 5]),
        "metricMemoryCollectPolicy": st.sampled_from(["", "usageWithPageCache", "odd"]),
        "cpuCalculatePolicy": st.sampled_from(["usage", "odd"]),
    },
)
ANNOTATION = FIELDS.map(json.dumps) | st.sampled_from(["", "no", "[]", '{"odd":1}', '{"midCPUThresholdPercen":1}'])
SELECTOR = st.sampled_from(
    [
        None, {}, {"matchLabels": {"pool": "x"}}, {"matchLabels": {"pool": "y"}},
        {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["x", "y"]}]},
        {"matchExpressions": [{"key": "pool", "operator": "Odd", "values": ["x"]}]},
        {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]},
    ]
)  # fmt: skip
ENTRY = st.builds(lambda fields, selector: {**fields, "name": "e", "nodeSelector": selector}, FIELDS, SELECTOR)
CONFIG = st.builds(
    lambda fields, entries: {**fields, **({"nodeConfigs": entries} if entries else {})},
    FIELDS,
    st.lists(ENTRY, max_size=2),
)
ON_NODE = st.builds(
    lambda labels, pool, annotation: {
        "labels": {**labels, **pool},
        "annotations": {} if annotation is None else {"node.koordinator.sh/colocation-strategy": annotation},
    },
    LABELS,
    st.dictionaries(st.just("pool"), st.sampled_from(["x", "z"])),
    ANNOTATION | st.none(),
)


def _odd(config: Json) -> st.SearchStrategy[str]:
    """The text of a configuration, and texts that somebody who edits it in a hurry might leave behind."""
    text = json.dumps(config)
    return st.sampled_from(
        [
            text, f"{text} trailing", f" {text}\n", text.replace("mid", "MID"), text.replace("Percent", "Percen"),
            text.replace("enable", "ENABLE"), text.replace("true", "1"), text.replace("true", '"true"'), text[:-1],
            f'{{"odd": 1, "nodeConfigs": [null, {text}]}}', f'{{"nodeConfigs": {text}}}', f"[{text}]",
            f'{{"enable": true, "enable": false, "nodeConfigs": [{text}]}}', '{"midPolicy": "design"}', "null", " ",
            f'{{"extensions": {text}, "metricAggregatePolicy": {{"durations": ["90s", "1h"]}}}}',
            '{"metricAggregatePolicy": {"durations": ["-5m"]}}', '{"nodeConfigs": null, "enable": null}',
            '{"enable": NaN}',
        ]
    )  # fmt: skip


TEXT = CONFIG.flatmap(_odd) | st.sampled_from([None, ""])


def _is_answered(family: str, asked: Json) -> None:
    vector = {"name": "unseen", "input": asked, "expected": MODEL[family, asked["op"]](asked)}
    judgement = judge(family, vector)
    assert judgement.outcome in (Outcome.PASSED, Outcome.DEVIATION), f"{judgement.detail} {vector}"


@pytest.mark.parametrize(("family", "operation"), sorted(MODEL), ids=lambda part: part)
def test_model_is_the_peer(family: str, operation: str) -> None:
    """The model answers each recorded vector as the peer did."""
    recorded = json.loads((VECTORS / f"{family}.json").read_text(encoding="utf-8"))
    found = [vector for vector in recorded if vector["input"]["op"] == operation]
    assert found
    for vector in found:
        wrong = difference(vector["expected"], MODEL[family, operation](vector["input"]), None)
        assert wrong is None, f"{vector['name']}: {wrong}"


@fuzz(asked=CALCULATE)
def test_any_node_is_calculated(asked: Json) -> None:
    """What a node sells is the peer's number, or there is a reason in its input why it is ours."""
    _is_answered("mid_resource", asked)


@fuzz(age=st.sampled_from([None, -3600, -60, 0, 20, 900, 901]), offset=st.sampled_from([0, 59, 61, 660, 901, 4000]))
def test_any_age_is_judged(age: int | None, offset: int) -> None:
    """Reports of any age, of clocks that are ahead and of clocks that moved on."""
    metric = {"updateAgeSeconds": age}
    strategy: Mapping[str, Any] = {"degradeTimeMinutes": 1}
    asked = {"op": "is_degrade_needed", "nodeMetric": metric, "strategy": strategy, "clockOffsetSeconds": offset}
    _is_answered("mid_resource", asked)


@fuzz(old=NUMBER, new=NUMBER, threshold=THRESHOLD)
def test_any_change_is_weighed(old: str, new: str, threshold: float) -> None:
    """Increases and decreases under any threshold, also one above 1."""
    _is_answered("mid_resource", {"op": "is_quantity_diff", "old": old, "new": new, "diffThreshold": threshold})


@fuzz(old=OFFERING, new=OFFERING, threshold=THRESHOLD)
def test_any_node_is_compared(old: Json, new: Json, threshold: float) -> None:
    """Resources that come, go, change, or differ between capacity and allocatable."""
    asked = {"op": "need_sync", "oldNode": old, "newNode": new, "resourceDiffThreshold": threshold}
    _is_answered("mid_resource", asked)


@fuzz(config=CONFIG | st.none(), node=ON_NODE | st.none())
def test_any_node_has_a_strategy(config: Json | None, node: Json | None) -> None:
    """Entries, annotations and labels of any kind, and whether they enable."""
    _is_answered("colocation_config", {"op": "get_node_strategy", "config": config, "node": node})
    _is_answered("mid_resource", {"op": "is_colocation_disabled", "config": config, "node": node})


@fuzz(strategy=FIELDS | st.none())
def test_any_strategy_is_judged(strategy: Json | None) -> None:
    """Numbers in and out of both sides' ranges."""
    _is_answered("colocation_config", {"op": "is_strategy_valid", "strategy": strategy})


@fuzz(text=TEXT, present=st.booleans(), available=st.booleans())
def test_any_text_is_judged_twice(text: str | None, present: bool, available: bool) -> None:  # noqa: FBT001
    """What a text puts in force is what the design says, worked out a second time."""
    cache = {"available": available, "config": {**second.DEFAULTS, "midUnallocatedPercent": 7} if available else {}}
    asked = {"op": "sync_config", "cache": cache, "colocationConfigData": text, "configMapPresent": present}
    everything = dict.fromkeys(["available", "changed", "config", "errorStatus", "events"])
    wrong = difference(synced(asked, everything), OF_CONFIG["sync_config"](asked), None)
    assert wrong is None, f"{wrong} {text}"


@fuzz(text=TEXT, present=st.booleans(), node=ON_NODE)
def test_any_spec_is_judged_twice(text: str | None, present: bool, node: Json) -> None:  # noqa: FBT001
    """What is asked of an agent is what the design says, worked out a second time."""
    asked = {"op": "nodemetric_spec", "colocationConfigData": text, "configMapPresent": present, "node": node}
    wrong = difference(spec(asked, None), OF_POLICY["nodemetric_spec"](asked), None)
    assert wrong is None, f"{wrong} {text}"


@fuzz(selectors=st.lists(SELECTOR, max_size=4))
def test_any_overlap_is_decided_twice(selectors: list[Json | None]) -> None:
    """Whether selectors overlap is what trying every label says; one that is malformed is told of, too."""
    profiles = [{"name": str(n), "nodeSelector": selector} for n, selector in enumerate(selectors)]
    sound = all(each is None or second.is_selector(each) for each in selectors)
    found = OF_CONFIG["webhook_selector_overlap"]({"profiles": profiles})
    assert found == {"error": not sound or second.compete(selectors)}


RECLAIM = "node.koordinator.sh/cpu-reclaim-ratio"


@pytest.mark.parametrize(
    ("family", "asked", "theirs"),
    [
        (  # a label that is no number passes there, and truncates to whatever the machine makes of it
            "colocation_config",
            {
                "op": "get_node_strategy",
                "config": {"cpuReclaimThresholdPercent": 60},
                "node": {"labels": {RECLAIM: "NaN"}},
            },
            {"strategy": {"cpuReclaimThresholdPercent": -(2**63)}},
        ),
        (
            "colocation_config",
            {"op": "update_strategy_for_node", "strategy": {"enable": True}, "node": {"labels": {RECLAIM: "0x1p-2"}}},
            {"strategy": {"cpuReclaimThresholdPercent": 25, "enable": True}},
        ),
        (
            "colocation_config",
            {"op": "sync_config", "cache": {"available": True, "config": {}}, "colocationConfigData": "null"}
            | {"configMapPresent": True},
            {"panics": True},
        ),
        (
            "colocation_config",
            {"op": "sync_config", "cache": {"available": True, "config": {}}, "colocationConfigData": ""}
            | {"configMapPresent": True},
            {"changed": True},
        ),
        (
            "colocation_config",
            {"op": "strategy_from_node_annotation"}
            | {"node": {"annotations": {"node.koordinator.sh/colocation-strategy": '{"midCPUThresholdPercent":-5}'}}},
            {"error": False, "strategy": {"midCPUThresholdPercent": -5}},
        ),
        (
            "mid_resource",
            {
                "op": "calculate",
                "node": {"allocatable": {"cpu": "1", "memory": "1"}},
                "nodeMetric": {"updateAgeSeconds": 1},
            }
            | {"pods": [], "strategy": {"degradeTimeMinutes": 1}},
            {"panics": True},
        ),
        (
            "nodemetric_policy",
            {
                "op": "nodemetric_spec",
                "colocationConfigData": "null",
                "configMapPresent": True,
                "node": {},
                "oldSpec": None,
            },
            {"panics": True},
        ),
        (
            "mid_resource",
            {
                "op": "is_node_resource_sync_needed",
                "lastSyncAgeSeconds": 600,
                "strategy": {"updateTimeThresholdSeconds": 300},
            }
            | {"oldNode": {"labels": {"a": "b"}}, "newNode": {"labels": {"a": "c"}}},
            {"syncStatus": True, "syncMeta": True},
        ),
    ],
    ids=["NaN", "hexadecimal", "null config", "partial cache", "negative", "no usage", "null spec", "labels"],
)
def test_defects_are_not_imitated(family: str, asked: Json, theirs: Json) -> None:
    """Where the peer crashes, takes nonsense, or writes without need, a rule says what we do instead."""
    judgement = judge(family, {"name": "unseen", "input": asked, "expected": theirs})
    assert judgement.outcome is Outcome.DEVIATION, judgement.detail


@pytest.mark.parametrize(
    ("family", "asked", "theirs"),
    [
        (
            "nodemetric_policy",
            {"op": "agent_merge_spec", "currentSpec": None}
            | {"newSpec": {"metricCollectPolicy": {"nodeAggregatePolicy": {"durations": ["1m", "90s", "1.5h"]}}}},
            {"spec": {"metricCollectPolicy": {"nodeAggregatePolicy": {"durations": ["1m0s", "1m30s", "1h30m0s"]}}}},
        ),
        (
            "nodemetric_report",
            {"op": "collect_node", "aggregate": "avg", "memoryCollectPolicy": "usageWithoutPageCache", "series": {}}
            | {"sampleSpanSeconds": 0, "coldMemoryStarted": False},
            {"usage": None, "sampleSpanSeconds": 0},
        ),
    ],
    ids=["durations", "nothing measured"],
)
def test_other_notations_agree(family: str, asked: Json, theirs: Json) -> None:
    """Durations in any notation are written as Go does, and amounts of nothing are also what Go writes as null."""
    judgement = judge(family, {"name": "unseen", "input": asked, "expected": theirs})
    assert judgement.outcome is Outcome.PASSED, judgement.detail
