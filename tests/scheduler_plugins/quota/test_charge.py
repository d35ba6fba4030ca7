"""What a pod is charged."""

from typing import Any

import pytest

from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling
from scheduler_plugins.quota.charge import Charging, charge_of
from scheduler_plugins.quota.pod import QuotaPod
from tests.scheduler_plugins.objects import Json
from tests.scheduler_plugins.quota.things import GPU, pod

INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


def _container(name: str, **requests: str) -> Json:
    return {"name": name, "resources": {"requests": requests}}


@pytest.mark.parametrize(
    ("spec", "charge"),
    [
        pytest.param({}, {"cpu": 1000}, id="one container"),
        pytest.param({"overhead": {"cpu": "250m", "memory": "1Ki"}}, {"cpu": 1250, "memory": 1024}, id="overhead"),
        pytest.param({"initContainers": [_container("i", cpu="3", memory="5")]}, {"cpu": 3000, "memory": 5}, id="init"),
        pytest.param(
            {"initContainers": [_container("i", cpu="2"), _container("j", cpu="2")]}, {"cpu": 2000}, id="two inits"
        ),
        pytest.param(
            {"initContainers": [_container("i", cpu="2")], "overhead": {"cpu": "1"}}, {"cpu": 3000}, id="init, overhead"
        ),
        pytest.param({"containers": [_container("a", cpu="100100u")]}, {"cpu": 101}, id="rounded up"),
        pytest.param({"containers": [_container("a", **{GPU: "0"})]}, {GPU: 0}, id="a scalar of 0 is named"),
        pytest.param({"containers": [_container("a", **{"requests.cpu": "1", "storage": "5"})]}, {}, id="no resources"),
        pytest.param({"containers": [{"name": "a"}, {"name": "b", "resources": None}]}, {}, id="nothing stated"),
    ],
)
def test_charge(spec: dict[str, Any], charge: dict[str, int]) -> None:
    """Containers together, no less than any init container, and overhead; integers, rounded up."""
    assert charge_of(pod("p", **spec)) == charge


@pytest.mark.parametrize(
    ("asked", "has", "promised", "conditions", "cpu"),
    [
        # grown, not done yet: what it asks for counts at once, so that two resizes cannot share one allowance
        pytest.param("4", "1", "1", [], 4000, id="growing"),
        # kubelet puts it off: it still counts, as kube-scheduler has it
        pytest.param("4", "1", "1", [DEFERRED], 4000, id="deferred"),
        # it can never be: the pod stays as it is
        pytest.param("4", "1", "1", [INFEASIBLE], 1000, id="infeasible"),
        pytest.param("4", "1", "2", [INFEASIBLE], 2000, id="infeasible, some promised"),
        pytest.param("4", None, None, [INFEASIBLE], 4000, id="infeasible, nothing known"),
        # shrunk, not done yet: it still has what it had
        pytest.param("1", "4", "1", [], 4000, id="shrinking"),
        pytest.param("1", "2", "4", [], 4000, id="promised more"),
        pytest.param("1", "1", "1", [], 1000, id="done"),
        pytest.param("1", None, None, [], 1000, id="no status"),
    ],
)
def test_resize(asked: str, has: str | None, promised: str | None, conditions: list[Json], cpu: int) -> None:
    """During a resize in place the larger amount counts; what cannot be does not."""
    item = pod("p", requests={"cpu": asked}, node="n1")
    status: Json = {"name": "main"}
    if has is not None:
        status |= {"resources": {"requests": {"cpu": has}}, "allocatedResources": {"cpu": promised}}
    item["status"] |= {"containerStatuses": [status], "conditions": conditions}
    assert charge_of(item) == {"cpu": cpu}


def test_resize_of_a_sidecar() -> None:
    """A sidecar that is resized is charged like any container that lasts; an init container that has ended is not."""
    sidecar = {**_container("s", cpu="1"), "restartPolicy": "Always"}
    item = pod("p", requests={"cpu": "1"}, initContainers=[sidecar, _container("i", cpu="1")])
    item["status"]["initContainerStatuses"] = [
        {"name": "s", "resources": {"requests": {"cpu": "3"}}},
        {"name": "i", "resources": {"requests": {"cpu": "9"}}},
    ]
    assert charge_of(item) == {"cpu": 3000}


@pytest.mark.parametrize(
    ("spec", "by_containers", "by_scheduler"),
    [
        ({"containers": [_container("c", cpu="1")]}, {"cpu": 1000}, {"cpu": 1000}),
        (
            {"containers": [_container("c", cpu="1")], "resources": {"requests": {"cpu": "3"}}},
            {"cpu": 1000},
            {"cpu": 3000},
        ),
        (
            {
                "containers": [_container("c", cpu="1")],
                "initContainers": [{**_container("s", cpu="2"), "restartPolicy": "Always"}],
            },
            {"cpu": 2000},
            {"cpu": 3000},
        ),
    ],
)
def test_all_that_is_set_aside_may_count(spec: Json, by_containers: Json, by_scheduler: Json) -> None:
    """By default pod-level requests and the lasting of sidecars are no charge, as upstream; by `scheduler` they are."""
    item = {"metadata": {"uid": "u"}, "spec": {"containers": [_container("c", cpu="1")], **spec}}
    assert QuotaPod.from_json(item).charge == by_containers
    assert QuotaPod.from_json(item, Charging.SCHEDULER).charge == by_scheduler
    plugin = CapacityScheduling(charge=Charging.SCHEDULER)
    assert plugin.facts(item).charge == by_scheduler
    assert plugin.new_state().read(item).charge == by_scheduler
