"""Any content of ConfigMaps, Nodes, NodeMetrics and pods: the manager writes numbers or nothing."""

import asyncio
import json
from typing import Any, Final

import pytest
from hypothesis import strategies as st

from crds import names
from crds.codec import to_json
from crds.colocation import ColocationConfig
from manager.calculators.mid import calculate, deadline
from manager.config import overlaps
from manager.config.in_force import after_change, at_start
from manager.config.merge import RATIO_LABELS, EffectiveStrategy, effective_strategy
from manager.config.parse import parse_config, parse_strategy, review
from manager.handlers import node_metric, nodes
from manager.inputs import NodeReport, PodInputs, Resource, StrategyInputs, from_objects
from manager.mid.publish import PublishState, decide, published_amounts, status_patch
from manager.node_metric import spec_for
from tests.fuzz.inputs import NUMBERS, Json, _places, altered, any_json, damaged, json_texts, objects
from tests.fuzz.originals import CONFIG, NODE, POD, REPORT
from tests.fuzz.strength import are_lines, fuzz
from tests.support.objects import NOW, mid_pod, strategy
from tests.support.world import METRIC as METRIC_PATH
from tests.support.world import NODE as NODE_PATH
from tests.support.world import World, put_pods

LARGEST: Final = 2**63
KEYS = st.sampled_from(sorted({*CONFIG, "nodeSelector", "name", "midCpuThresholdPercent", "enabled", "\n", "x" * 999}))
TEXTS = damaged(json.dumps(CONFIG, indent=1)) | json_texts(CONFIG) | any_json(KEYS).map(json.dumps)
TEXT = st.text(max_size=9)
LABELS = st.dictionaries(
    st.sampled_from([*RATIO_LABELS, "pool"]), st.sampled_from((*NUMBERS, "spot", "0.29", "1e-400")) | TEXT
)
STRATEGIES = st.dictionaries(st.just(names.ANNOTATION_COLOCATION_STRATEGY), TEXTS)


def usable(view: EffectiveStrategy) -> None:
    """A strategy that every formula, and the API server, can do something with."""
    are_lines(*map(str, view.findings))
    inputs = StrategyInputs.of(view.strategy)
    for percent in (*(inputs.threshold_percent[resource] for resource in Resource), inputs.unallocated_percent):
        assert 0 <= percent <= 100
    assert inputs.degrade_seconds > 0
    assert inputs.update_seconds > 0
    assert 0 < inputs.diff_threshold <= 1
    assert 0 <= inputs.increase_hold_seconds <= 3600
    json.dumps(to_json(spec_for(view.strategy)), allow_nan=False)


def served(config: ColocationConfig) -> None:
    for labels in ({}, {"pool": "spot"}, {"pool": "other"}):
        usable(effective_strategy(config, labels))
    overlaps.on_nodes(config, [("n1", {"pool": "spot"}), ("n2", {})])


@fuzz(given=TEXTS | st.lists(objects(*CONFIG["nodeConfigs"]), max_size=5))
def test_config_is_followed_or_refused_with_a_sentence_for_each_fault(given: str | list[Json]) -> None:
    text = given if isinstance(given, str) else json.dumps({"enable": True, "nodeConfigs": given})
    evaluated = parse_config(text)
    findings = (*evaluated.errors, *evaluated.entry_errors, *evaluated.warnings, *evaluated.hints)
    assert all(finding.message for finding in findings)
    are_lines(*map(str, findings))
    assert (evaluated.config is None) == bool(evaluated.errors)
    if evaluated.config is not None:
        if not isinstance(given, str):  # entries are evaluated by themselves: none refuses the text
            assert len(evaluated.config.node_configs or ()) == len(given)
        served(evaluated.config)
        assert parse_config(json.dumps(to_json(evaluated.config))).errors == ()


@fuzz(text=TEXTS, before=TEXTS | st.none(), present=st.booleans())
def test_bad_config_never_replaces_a_good_one(text: str, before: str | None, *, present: bool) -> None:
    started = at_start(before, present=before is not None, last_good=None)
    served(started.config)
    after = after_change(started, text, present=present)
    served(after.config)
    if after.errors:
        assert after.config == started.config
    said = review(text, before)
    assert (said.refusals() == ()) == (said.unchanged or not (said.errors or said.entry_errors))


@fuzz(labels=LABELS, annotations=STRATEGIES)
def test_labels_and_annotations_apply_whole_or_not_at_all(labels: dict[str, str], annotations: dict[str, str]) -> None:
    config = parse_config(json.dumps(CONFIG)).config
    assert config is not None
    plain = effective_strategy(config, {name: text for name, text in labels.items() if name == "pool"})
    view = effective_strategy(config, labels, annotations)
    usable(view)
    if len(view.findings) > len(plain.findings) and not any(RATIO_LABELS.keys() & labels.keys()):
        evaluated = parse_strategy(annotations[names.ANNOTATION_COLOCATION_STRATEGY])
        assert evaluated.strategy is not None or view.strategy == plain.strategy


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "midPolicy": st.sampled_from(["reclaimable", "design", "designMixed"]),
        "midReclaimMode": st.sampled_from(["", "static"]),
        "midUnallocatedPercent": st.integers(0, 100),
        "midStaticCPUReservedPercent": st.integers(0, 100),
        "midCPUThresholdPercent": st.integers(0, 100),
        "midShrinkPolicy": st.sampled_from(["floor", "exact"]),
        "mode": st.sampled_from(["active", "shadow"]),
        "enable": st.booleans(),
    },
)
METRIC = {"metadata": {"name": "worker"}, "status": REPORT}
MID_POD = {**POD, "spec": {"nodeName": "worker", "containers": POD["spec"]["containers"]}}
PUBLISHED = {**NODE, "status": {part: {**NODE["status"][part], names.MID_CPU: "500"} for part in NODE["status"]}}
IN_LISTS = {place for place in _places(POD) if place and isinstance(place[-1], int)}
PODS = altered(
    POD,
    admitted=True,
    kept=frozenset({(), ("metadata",), ("spec",), ("spec", "nodeName"), ("spec", "containers"), *IN_LISTS}),
)
ANNOTATIONS = st.dictionaries(
    st.sampled_from((names.ANNOTATION_RAW_ALLOCATABLE, names.ANNOTATION_NODE_RESERVATION)),
    damaged(*NODE["metadata"]["annotations"].values()) | any_json().map(json.dumps) | st.text(),
)
NODES = objects(NODE, PUBLISHED) | ANNOTATIONS.map(lambda own: {**NODE, "metadata": {"name": "n", "annotations": own}})


@fuzz(node=NODES, metric=objects(METRIC), pods=st.lists(PODS, max_size=3), fields=FIELDS, which=st.integers(0, 3))
def test_published_is_within_allocatable(node: Json, metric: Json, pods: list[Json], fields: Json, which: int) -> None:
    """A node with anything in its Node, its NodeMetric or its pods is calculated, or there is a reason why not."""
    node = node if which in (0, 3) else NODE
    metric = metric if which in (1, 3) else METRIC
    inputs = from_objects(node, metric, pods if which in (2, 3) else [MID_POD], strategy(**fields), NOW)
    result = calculate(inputs)
    for resource in Resource:
        calculated, there = result.calculated[resource], inputs.allocatable[resource] or 0
        assert type(calculated) is int
        assert 0 <= calculated <= there < LARGEST
        assert result.deficit[resource] == max(result.requested[resource] - calculated, 0)
        assert inputs.requests_above_mid[resource] >= 0
        assert inputs.mid_requests[resource] >= 0
    are_lines(*inputs.problems, *result.notes)
    wait = deadline(inputs)
    assert (wait is None) == (result.degraded is not None)
    assert wait is None or 0 <= wait <= inputs.strategy.degrade_seconds
    decision = decide(published_amounts(node), result.desired, inputs.strategy, PublishState(), NOW, result.requested)
    json.dumps(status_patch(decision.writes), allow_nan=False)


@fuzz(annotations=ANNOTATIONS)
def test_annotation_that_cannot_be_read_is_named(annotations: dict[str, str]) -> None:
    node = {**NODE, "metadata": {"name": "worker", "annotations": annotations}}
    problems = from_objects(node, METRIC, [], strategy(), NOW).problems
    for text in annotations.values():
        try:
            unusable = not isinstance(json.loads(text), dict)
        except (ValueError, RecursionError):
            unusable = True
        assert not (unusable and text) or problems


@fuzz(status=objects(REPORT), pod=PODS)
def test_reports_and_pods_are_amounts(status: Json, pod: Json) -> None:
    report = NodeReport.from_object({"status": status})
    if report is not None:
        measured = (report.node_usage, report.system_usage, report.mid_usage, report.reclaimable)
        assert all(entry[name] is None or 0 <= (entry[name] or 0) < LARGEST for entry in measured for name in Resource)
    result = PodInputs.from_object(pod)
    assert all(result.requests[resource] >= 0 and result.mid_requests[resource] >= 0 for resource in Resource)
    assert not (result.above_mid and result.holds_mid)
    again = PodInputs.from_object({**pod, "metadata": {**pod["metadata"], "annotations": {"any": "thing"}}})
    assert (again.requests, again.mid_requests, again.band) == (result.requests, result.mid_requests, result.band)


SOUND = {**NODE, "metadata": {"name": "n1", "uid": "u", "labels": {}, "annotations": {}}}
LISTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", names.MID_CPU, names.MID_MEMORY]),
    st.sampled_from(["7800m", "15Gi", "8", "500", "0"]) | any_json(),
)
STATUSES = st.fixed_dictionaries({}, optional={"capacity": LISTS | st.none(), "allocatable": LISTS | st.none()})


def _node(status: Json, own: Json, more: Json) -> Json:
    return {**SOUND, "metadata": {**SOUND["metadata"], "annotations": {**own, **more}}, "status": status}


def _as_object(value: Json) -> Json:
    return value if isinstance(value, dict) else {}


STEP = st.fixed_dictionaries(
    {"seconds": st.integers(0, 1000)},
    optional={
        "config": TEXTS,
        "node": st.builds(_node, STATUSES, ANNOTATIONS, STRATEGIES),
        # Conditions are merged by their type: the API server lets no other ones in.
        "report": objects(REPORT).map(lambda status: {**_as_object(status), "conditions": REPORT["conditions"]}),
        "spec": objects({"metricCollectPolicy": {"reportIntervalSeconds": 60}}).map(_as_object),
        "pods": st.lists(PODS, max_size=3),
    },
)


def happens(world: World, step: Json) -> None:
    world.later(step["seconds"])
    if "config" in step:
        world.configure(step["config"])
    if "node" in step:
        nodes.observe(world.run, "MODIFIED", world.api.put(NODE_PATH, step["node"]))
    metric = world.api.objects.get(METRIC_PATH)
    if metric is not None and ("report" in step or "spec" in step):
        changed = {"status": step.get("report", metric.get("status")), "spec": step.get("spec", metric.get("spec"))}
        node_metric.observe(world.run, "MODIFIED", world.api.put(METRIC_PATH, metric | changed))
    if "pods" in step:
        on_it = [{**pod, "spec": {**pod["spec"], "nodeName": "n1"}} for pod in step["pods"]]
        put_pods(world.run.context.cluster, [PodInputs.from_object(pod) for pod in (*on_it, mid_pod("own"))])


async def live(*steps: Json) -> None:
    world = World()
    world.has_node(SOUND)
    await world.reconcile()
    for step in steps:
        happens(world, step)
        await world.reconcile()
        for patch in world.api.written("PATCH", NODE_PATH):
            assert patch.keys() <= {"status", "metadata"}
            lists = [patch["status"][part] for part in ("capacity", "allocatable")]
            assert lists[0] == lists[1]
            assert lists[0].keys() <= {names.MID_CPU, names.MID_MEMORY}
            assert all(number is None or 0 <= int(number) < LARGEST for number in lists[0].values())
        world.api.calls.clear()
        due = world.due_in()
        assert due is None or due >= 0


@fuzz(steps=st.lists(STEP, max_size=4))
def test_no_reconcile_fails(steps: list[Json]) -> None:
    """Every patch of a Node is about our two resources, with the same numbers in both lists."""
    asyncio.run(live(*steps))


@pytest.mark.parametrize("status", [None, {}, {"capacity": None}, {"capacity": [], "allocatable": {}}])
def test_node_without_readable_status_gets_nothing(status: Any) -> None:  # noqa: ANN401
    asyncio.run(live({"seconds": 1, "node": {**SOUND, "status": status}, "report": REPORT}))
