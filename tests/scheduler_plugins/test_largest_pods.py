"""Each user field at its largest: the extender handles the pod within bounded work, or rejects the field."""

import sys
from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import pytest

from scheduler_plugins.extender.service import Answering, Extender
from scheduler_plugins.extender.wire import FilterResult, parse
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.plugins.capacity_scheduling import NAME as QUOTAS
from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling
from scheduler_plugins.plugins.load_aware import NAME as LOAD
from scheduler_plugins.plugins.load_aware import LoadAware
from scheduler_plugins.plugins.mid_resources import NAME as MID
from scheduler_plugins.plugins.mid_resources import MidResources
from scheduler_plugins.snapshot.cache import ClusterCache
from tests.scheduler_plugins.objects import NOW, Json, node, pod

NODES: Final = 250
MOST_CALLS: Final = 150_000
"""Calls of functions, Python's and C's: half of a pod's 50 ms, which 143,000 of them take. [calls]"""
SOFT: Final = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_GT: Final[Json] = {"key": "generation", "operator": "Gt", "values": ["1"]}
_IN: Final[Json] = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}


def _node(number: int) -> Json:
    made = node(f"n{number}")
    made["metadata"]["labels"] = {
        "kubernetes.io/hostname": f"n{number}",
        "topology.kubernetes.io/zone": f"z{number % 3}",
        "generation": str(number),
    }
    made["spec"] = {"taints": [{"key": f"soft-{number % 10}", "value": "1", "effect": "PreferNoSchedule"}]}
    return made


@pytest.fixture(scope="module")
def extender() -> Extender:
    load = LoadAware().defaulted()
    plugins = {LOAD: load, MID: MidResources(), QUOTAS: CapacityScheduling()}
    cache = ClusterCache(load.load_rules(), plugins)
    for number in range(NODES):
        cache.put_node(_node(number))
    cycle = Cycle([Enabled(name, 1.0, plugin) for name, plugin in plugins.items()])
    return Extender(cache, cycle, Answering(), lambda: NOW, np.random.default_rng(0))


def _soft_terms(count: int, expression: Json, each: int = 1) -> Json:
    terms = [{"weight": 1, "preference": {"matchExpressions": [expression] * each}} for _ in range(count)]
    return {"affinity": {"nodeAffinity": {SOFT: terms}}}


def _of_pods(kind: str, when: str, count: int) -> Json:
    terms: list[Json] = [{"topologyKey": f"key-{index}"} for index in range(count)]
    if when == SOFT:
        terms = [{"weight": 1, "podAffinityTerm": term} for term in terms]
    return {"affinity": {kind: {when: terms}}}


def _spread(count: int) -> Json:
    keys = [f"key-{index}" for index in range(count)]
    return {
        "topologySpreadConstraints": [
            {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"} for key in keys
        ]
    }


def _containers(count: int, **part: Any) -> list[Json]:  # noqa: ANN401 - JSON
    return [{"name": f"c{at}", "resources": {"requests": {"cpu": f"{at + 1}m"}}, **part} for at in range(count)]


def _tolerations(count: int) -> Json:
    return {"tolerations": [{"key": f"t{index}", "operator": "Exists"} for index in range(count)]}


ANSWERED: Final[dict[str, Json]] = {
    "tolerations": _tolerations(250),
    "preferred Gt terms": _soft_terms(50, _GT, 2),
    "preferred In terms": _soft_terms(50, _IN, 2),
    "ScheduleAnyway constraints": _spread(50),
    "preferred affinity": _of_pods("podAffinity", SOFT, 50),
    "preferred anti-affinity": _of_pods("podAntiAffinity", SOFT, 50),
    "required anti-affinity": _of_pods("podAntiAffinity", REQUIRED, 250),
    "required node terms": {
        "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [_GT]}] * 250}}}
    },
    "containers": {"containers": _containers(250)},
    "init containers": {"initContainers": _containers(249, restartPolicy="Always")},
    "ports": {"containers": _containers(1, ports=[{"hostPort": each + 1} for each in range(250)])},
    "amounts": {"overhead": {f"a.b/c{element}": "1" for element in range(999)}},
    "claims": {"resourceClaims": [{"name": f"c{each}"} for each in range(250)]},
    "volumes": {"volumes": [{"name": f"v{each}", "persistentVolumeClaim": {"claimName": "c"}} for each in range(250)]},
    "node selector": {"nodeSelector": {f"key-{each}": "value" for each in range(250)}},
    "host aliases": {"hostAliases": [{"ip": "::1", "hostnames": [f"h{each}"]} for each in range(24_000)]},
    "environment": {"containers": _containers(1, env=[{"name": f"E{each}", "value": "x"} for each in range(24_000)])},
}
REFUSED: Final[dict[str, tuple[Json, str]]] = {
    "tolerations": (_tolerations(29_500), "spec.tolerations"),
    "preferred terms": (_soft_terms(500, _GT), "spec.affinity.nodeAffinity"),
    "expressions": (_soft_terms(50, _IN, 50), "spec.affinity.nodeAffinity"),
    "ScheduleAnyway constraints": (_spread(13_000), "spec.topologySpreadConstraints"),
    "preferred affinity": (_of_pods("podAffinity", SOFT, 5_000), "spec.affinity.podAffinity"),
    "required anti-affinity": (_of_pods("podAntiAffinity", REQUIRED, 5_000), "spec.affinity.podAntiAffinity"),
    "containers": ({"containers": _containers(4_500)}, "spec.containers"),
    "claims": ({"resourceClaims": [{"name": f"c{each}"} for each in range(15_000)]}, "spec.resourceClaims"),
    "volumes": ({"volumes": [{"name": f"v{each}", "emptyDir": {}} for each in range(20_000)]}, "spec.volumes"),
    "amounts": ({"overhead": {f"a.b/c{each}": "1" for each in range(40_000)}}, "spec.overhead"),
    "ports": (
        {"containers": _containers(1, ports=[{"hostPort": each + 1} for each in range(20_000)])},
        "spec.containers[0].ports",
    ),
    "gates": ({"schedulingGates": [{"name": f"g{each}"} for each in range(20_000)]}, "spec.schedulingGates"),
}


def _calls(work: Callable[[], FilterResult]) -> tuple[int, FilterResult]:
    count = 0

    def note(_frame: object, event: str, _what: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = work()
    finally:
        sys.setprofile(before)
    return count, result


def _filtered(extender: Extender, item: Json) -> tuple[int, FilterResult]:
    body = msgspec.json.encode({"Pod": item, "NodeNames": [f"n{number}" for number in range(NODES)]})
    return _calls(lambda: extender.filter(parse(body)))


def _pod(name: str, spec: Json) -> Json:
    return pod(f"p-{name}".replace(" ", "-").lower(), {"cpu": "1"}, **spec)


@pytest.mark.parametrize("field", ANSWERED)
def test_largest_pod_is_answered_within_bounds(extender: Extender, field: str) -> None:
    calls, result = _filtered(extender, _pod(field, ANSWERED[field]))
    assert result.names
    assert calls < MOST_CALLS


@pytest.mark.parametrize("field", REFUSED)
def test_larger_pod_is_refused_by_its_field(extender: Extender, field: str) -> None:
    spec, path = REFUSED[field]
    calls, result = _filtered(extender, _pod(field, spec))
    assert (list(result.names), len(result.unresolvable or ())) == ([], NODES)
    assert all(reason.startswith(f"the pod cannot be read: {path}") for reason in (result.unresolvable or {}).values())
    assert calls < MOST_CALLS / 10


def test_largest_labels(extender: Extender) -> None:
    item = _pod("labels", {})
    item["metadata"]["annotations"] = {f"a-{index}": "x" * 100 for index in range(2_400)}
    item["metadata"]["labels"] = {f"l-{number}": "x" for number in range(100)}
    calls, result = _filtered(extender, item)
    assert result.names
    assert calls < MOST_CALLS
    item["metadata"]["labels"] = {f"l-{entry}": "x" for entry in range(8_000)}
    _, result = _filtered(extender, item)
    assert set((result.unresolvable or {}).values()) == {
        "the pod cannot be read: metadata.labels: at most 100 items are allowed"
    }
