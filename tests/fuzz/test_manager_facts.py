"""Nodes, NodeMetrics and pods as the manager reads them: written by agents, kubelets and people of any kind."""

import json

from hypothesis import strategies as st

from crds import names
from manager.calculators.mid import calculate, deadline
from manager.inputs import NodeInputs, NodeReport, PodInputs, Resource, from_objects
from manager.mid.publish import PublishState, decide, published_amounts, status_patch
from tests.fuzz.inputs import NUMBERS, Json, any_json, damaged, objects
from tests.fuzz.originals import NODE, POD, REPORT
from tests.fuzz.strength import LONGEST_LINE, fuzz
from tests.support.objects import NOW, strategy

LARGEST = 2**63
METRIC = {"metadata": {"name": "worker"}, "status": REPORT}
MID_POD = {**POD, "spec": {"nodeName": "worker", "containers": POD["spec"]["containers"]}}
PUBLISHED = {**NODE, "status": {part: {**NODE["status"][part], names.MID_CPU: "500"} for part in NODE["status"]}}
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
TEXT = st.text(max_size=9)
QUANTITY = st.sampled_from([*NUMBERS, "1", "250m", "3Gi", "1e3", "0.1n", "-2", "9Ei"]) | TEXT
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "pods", names.MID_CPU, names.MID_MEMORY]), QUANTITY)
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS}) | st.none()
CONTAINER = st.fixed_dictionaries(
    {"name": TEXT}, optional={"resources": RESOURCES, "restartPolicy": st.sampled_from(["Always", ""])}
)
OWNER = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["ReplicaSet", "Job", "DaemonSet", "Node", "Odd"]),
        "name": TEXT,
        "controller": st.booleans(),
    }
)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": TEXT, "namespace": TEXT, "uid": TEXT},
            optional={
                "labels": st.dictionaries(st.sampled_from([names.LABEL_PRIORITY_CLASS, names.LABEL_QOS]), TEXT)
                | st.just({names.LABEL_PRIORITY_CLASS: "koord-mid"})
                | st.none(),
                "annotations": st.dictionaries(st.just(names.ANNOTATION_CONFIG_MIRROR), TEXT) | st.none(),
                "ownerReferences": st.lists(OWNER, max_size=2) | st.none(),
                "creationTimestamp": TEXT | st.just("2026-07-20T10:00:00Z") | st.none(),
            },
        ),
        "spec": st.fixed_dictionaries(
            {"nodeName": st.just("worker"), "containers": st.lists(CONTAINER, max_size=3)},
            optional={
                "priority": st.integers(-(2**31), 2**31 - 1) | st.none(),
                "initContainers": st.lists(CONTAINER, max_size=2) | st.none(),
                "overhead": AMOUNTS | st.none(),
                "resources": RESOURCES,
            },
        ),
    },
    optional={"status": st.fixed_dictionaries({}, optional={"phase": TEXT | st.just("Failed"), "qosClass": TEXT})},
)
"""Pods in the shape that an API server admits, with any text and number in it."""
ANNOTATIONS = st.dictionaries(
    st.sampled_from((names.ANNOTATION_RAW_ALLOCATABLE, names.ANNOTATION_NODE_RESERVATION)),
    damaged(*NODE["metadata"]["annotations"].values()) | any_json().map(json.dumps) | st.text(),
)


def _is_sound(node: Json, facts: NodeInputs) -> None:
    """What is published stays between nothing and what is allocatable, whatever was said."""
    result = calculate(facts)
    for resource in Resource:
        calculated, there = result.calculated[resource], facts.allocatable[resource] or 0
        assert type(calculated) is int
        assert 0 <= calculated <= there < LARGEST
        assert result.deficit[resource] == max(result.requested[resource] - calculated, 0)
    for problem in (*facts.problems, *result.notes):
        assert problem
        assert len(problem) <= LONGEST_LINE, problem
        assert "\n" not in problem, problem
    wait = deadline(facts)
    assert (wait is None) == (result.degraded is not None)
    assert wait is None or 0 <= wait <= facts.strategy.degrade_seconds
    decision = decide(published_amounts(node), result.desired, facts.strategy, PublishState(), NOW, result.requested)
    json.dumps(status_patch(decision.writes), allow_nan=False)


@fuzz(node=objects(NODE, PUBLISHED), fields=FIELDS)
def test_node(node: Json, fields: Json) -> None:
    """A Node with anything in it is calculated, or there is a reason why not."""
    _is_sound(node, from_objects(node, METRIC, [MID_POD], strategy(**fields), NOW))


@fuzz(annotations=ANNOTATIONS, fields=FIELDS)
def test_annotations(annotations: dict[str, str], fields: Json) -> None:
    """An annotation that cannot be read is named and left out."""
    node = {**NODE, "metadata": {"name": "worker", "annotations": annotations}}
    facts = from_objects(node, METRIC, [], strategy(**fields), NOW)
    _is_sound(node, facts)
    for text in annotations.values():
        try:
            unusable = not isinstance(json.loads(text), dict)
        except (ValueError, RecursionError):
            unusable = True
        assert not (unusable and text) or facts.problems


@fuzz(metric=objects(METRIC), fields=FIELDS)
def test_node_metric(metric: Json, fields: Json) -> None:
    """A NodeMetric with anything in it is a report as far as it goes."""
    _is_sound(NODE, from_objects(NODE, metric, [MID_POD], strategy(**fields), NOW))


@fuzz(status=objects(REPORT))
def test_status(status: Json) -> None:
    """A status is reduced to amounts that can be, and sentences about the others."""
    report = NodeReport.from_object({"status": status})
    if report is None:
        return
    measured = (report.node_usage, report.system_usage, report.mid_usage, report.reclaimable)
    assert all(each[name] is None or 0 <= (each[name] or 0) < LARGEST for each in measured for name in Resource)
    _is_sound(NODE, from_objects(NODE, report, [], strategy(), NOW))


@fuzz(pods=st.lists(PODS, max_size=3), fields=FIELDS)
def test_pods(pods: list[Json], fields: Json) -> None:
    """Pods of any kind request what can be read, never less than nothing, and never stop the node that they are on."""
    facts = from_objects(NODE, METRIC, pods, strategy(**fields), NOW)
    assert all(facts.requests_above_mid[each] >= 0 and facts.mid_requests[each] >= 0 for each in Resource)
    _is_sound(NODE, facts)


@fuzz(pod=PODS)
def test_pod(pod: Json) -> None:
    """A pod is reduced to the same numbers whatever else is written on it, and counts as Mid or above Mid, not both."""
    found = PodInputs.from_object(pod)
    assert all(found.requests[each] >= 0 and found.mid_requests[each] >= 0 for each in Resource)
    assert not (found.above_mid and found.holds_mid)
    again = PodInputs.from_object({**pod, "metadata": {**pod["metadata"], "annotations": {"any": "thing"}}})
    assert (again.requests, again.mid_requests, again.band) == (found.requests, found.mid_requests, found.band)
