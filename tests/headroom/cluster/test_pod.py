import sys
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headroom.cluster import pod as pods


def _container(requests: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"resources": {"requests": requests or {}, **more.pop("resources", {})}, **more}


def _requests(**spec: Any) -> dict[str, Fraction]:  # noqa: ANN401
    return pods.pod_requests({"spec": spec})


def test_containers_add_up() -> None:
    result = _requests(containers=[_container({"cpu": "500m"}), _container({"cpu": 1, "memory": "1Gi"}), {}])
    assert result == {"cpu": Fraction(3, 2), "memory": 2**30}


def test_init_phase_counts_as_maximum() -> None:
    """The largest init container counts where it is more than all containers together."""
    init = [_container({"cpu": "3", "memory": "1Gi"}), _container({"cpu": "1"})]
    result = _requests(containers=[_container({"cpu": "2", "memory": "2Gi"})], initContainers=init)
    assert result == {"cpu": 3, "memory": 2 * 2**30}


def test_sidecars_stay() -> None:
    """A restartable init container adds to the sum, and to the init containers that start after it only."""
    sidecar = _container({"cpu": "1"}, restartPolicy="Always")
    before, after = _container({"cpu": "4"}), _container({"cpu": "4"})
    assert _requests(containers=[_container({"cpu": "1"})], initContainers=[before, sidecar]) == {"cpu": 4}
    assert _requests(containers=[_container({"cpu": "1"})], initContainers=[sidecar, after]) == {"cpu": 5}
    assert _requests(containers=[_container({"cpu": "2"})], initContainers=[sidecar, sidecar]) == {"cpu": 4}


def _steps(sidecars: int) -> int:
    """Return how many calls it takes to add up a pod of so many sidecars, no two of which ask for the same."""
    init = [_container({f"a.b/{index}": "1"}, restartPolicy="Always") for index in range(sidecars)]
    steps = 0

    def count(_frame: object, _event: str, _argument: object) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        _requests(initContainers=init)
    finally:
        sys.setprofile(None)
    return steps


def test_sidecars_are_added_up_once() -> None:
    """Ten times as many sidecars take ten times as long, not a hundred times: any user may create such a pod."""
    assert _steps(300) < 15 * _steps(30)


def test_only_requested_fields_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that reads CPU alone does not read thousands of other amounts, wherever a pod has them."""
    many = {"cpu": "1", **{f"a.b/{index}": "1" for index in range(1000)}}
    read: list[object] = []

    def counting(amount: str) -> Fraction:
        read.append(amount)
        return Fraction(amount)

    monkeypatch.setattr(pods, "parse_quantity", counting)
    both: dict[str, Any] = {"requests": many, "limits": many}
    init = [{"resources": both, "restartPolicy": "Always"}, {"resources": both}]
    spec = {"containers": [{"resources": both}], "initContainers": init, "overhead": many}
    assert pods.pod_requests({"spec": spec}, only=("cpu", "memory")) == {"cpu": 3}
    assert pods.pod_limits({"spec": spec}, only=("cpu", "memory")) == {"cpu": 3}
    assert len(read) < 20


def test_pod_level_overrides() -> None:
    """Pod-level amounts replace the sum for CPU, memory and huge pages, and overhead is added."""
    result = _requests(
        containers=[_container({"cpu": "1", "nvidia.com/gpu": "1"})],
        resources={"requests": {"cpu": "3", "hugepages-2Mi": "2Mi", "nvidia.com/gpu": "7"}},
        overhead={"cpu": "100m"},
    )
    assert result == {"cpu": Fraction(31, 10), "hugepages-2Mi": 2 * 2**20, "nvidia.com/gpu": 1}


def test_overhead_needs_a_limit() -> None:
    """Overhead is added to a limit, and makes none where there is none."""
    limited = {"resources": {"limits": {"cpu": "1"}}}
    result = pods.pod_limits({"spec": {"containers": [limited], "overhead": {"cpu": "100m", "memory": "1Mi"}}})
    assert result == {"cpu": Fraction(11, 10)}


def test_absent_is_not_zero() -> None:
    """A resource without a request is absent; a request of 0 is 0."""
    assert _requests(containers=[_container({"cpu": "0"})]) == {"cpu": 0}
    assert pods.pod_requests({}) == {}
    assert pods.pod_limits({"spec": None}) == {}


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "x.io/y"]), st.integers(0, 10**6), max_size=3)
containers = st.lists(
    st.builds(
        lambda own, always: {
            "resources": {"requests": own, "limits": own},
            **({"restartPolicy": "Always"} if always else {}),
        },
        amounts,
        st.booleans(),
    ),
    max_size=4,
)


@given(containers, containers, amounts)
def test_requests_cover_every_phase(main: list[Any], init: list[Any], overhead: dict[str, int]) -> None:
    """The reserved amount is enough for all containers with all sidecars, and for every init container."""
    result = pods.pod_requests({"spec": {"containers": main, "initContainers": init, "overhead": overhead}})
    running = main + [container for container in init if "restartPolicy" in container]
    for name, amount in result.items():
        alone = [container["resources"]["requests"].get(name, 0) for container in init]
        together = sum(container["resources"]["requests"].get(name, 0) for container in running)
        assert amount >= max([together, *alone]) + overhead.get(name, 0)


@pytest.mark.parametrize(
    ("phase", "terminal"),
    [("Succeeded", True), ("Failed", True), ("Running", False), ("Pending", False), (None, False)],
)
def test_terminal_phases(phase: str | None, terminal: bool) -> None:  # noqa: FBT001
    assert pods.is_terminal({"status": {"phase": phase}}) is terminal


def _mirror(annotations: dict[str, str], *owners: dict[str, Any], node: str | None = "n1") -> dict[str, Any]:
    metadata = {"uid": "u", "annotations": annotations, "ownerReferences": list(owners)}
    return {"metadata": metadata, "spec": {"nodeName": node}}


OWN_NODE = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1-uid", "controller": True}
MIRROR = {"kubernetes.io/config.mirror": "h", "kubernetes.io/config.hash": "h", "kubernetes.io/config.source": "file"}


def test_mirror_runs_under_hash() -> None:
    """A static pod's cgroup has the config hash: kubelet lists it under that uid, and its mirror names it."""
    mirror, static = _mirror(MIRROR, OWN_NODE), {"metadata": {"uid": "h", "annotations": {"kubernetes.io/x": "h"}}}
    assert [pods.cgroup_uid(pod) for pod in (mirror, static)] == ["h", "h"]
    assert [pods.is_mirror_pod(pod) for pod in (mirror, static)] == [True, False]
    assert pods.cgroup_uid({"metadata": {"uid": "u"}}) == "u"


@pytest.mark.parametrize(
    "pod",
    [
        _mirror({"kubernetes.io/config.hash": "h"}),
        _mirror({"kubernetes.io/config.hash": "h", "kubernetes.io/config.source": "file"}, OWN_NODE),
        _mirror(MIRROR),
        _mirror(MIRROR, {**OWN_NODE, "kind": "ReplicaSet"}),
        _mirror(MIRROR, {**OWN_NODE, "name": "n2"}),  # another node's
        _mirror(MIRROR, {**OWN_NODE, "apiVersion": "tenant.example/v1"}),  # a foreign kind
        _mirror(MIRROR, {**OWN_NODE, "name": None}, node=None),
        _mirror({**MIRROR, "kubernetes.io/config.mirror": ""}, OWN_NODE),
    ],
)
def test_annotations_are_no_mirror(pod: dict[str, Any]) -> None:
    """A pod runs under its own uid unless its node owns it as a mirror, whatever its annotations."""
    assert pods.cgroup_uid(pod) == "u"
    assert not pods.is_mirror_pod(pod)


def _owned(kind: str, name: str, **metadata: Any) -> dict[str, Any]:  # noqa: ANN401
    owner = {"kind": kind, "name": name, "controller": True}
    return {"metadata": {"namespace": "shop", "name": "p-1", "ownerReferences": [owner], **metadata}}


CONFIG = {"openshift.io/deployment-config.name": "cart"}


def _knative(revision: str, digest: str) -> dict[str, Any]:
    labels = {
        "pod-template-hash": digest,
        "serving.knative.dev/configuration": "hello",
        "serving.knative.dev/service": "hello",
        "serving.knative.dev/revision": revision,
    }
    return _owned("ReplicaSet", f"{revision}-deployment-{digest}", labels=labels)


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        (_owned("ReplicaSet", "cart-7f9", labels={"pod-template-hash": "7f9"}), "shop/ReplicaSet/cart"),
        (_owned("ReplicaSet", "cart-7f9", labels={"rollouts-pod-template-hash": "7f9"}), "shop/ReplicaSet/cart"),
        (
            _owned("ReplicaSet", "a-7f9", labels={"pod-template-hash": "x", "rollouts-pod-template-hash": "7f9"}),
            "shop/ReplicaSet/a",
        ),
        (_owned("ReplicaSet", "cart-7f9"), "shop/ReplicaSet/cart-7f9"),  # not made by a Deployment
        (_owned("StatefulSet", "db", labels={"pod-template-hash": "db"}), "shop/StatefulSet/db"),
        (_owned("ReplicationController", "cart-12", labels=CONFIG), "shop/DeploymentConfig/cart"),
        (_owned("ReplicationController", "cart-13", annotations=CONFIG), "shop/DeploymentConfig/cart"),
        (_owned("ReplicationController", "cart-2", labels={"deploymentconfig": "cart"}), "shop/DeploymentConfig/cart"),
        (_owned("ReplicationController", "cart-2"), "shop/ReplicationController/cart-2"),  # a name like any other
        (_owned("ReplicationController", "till-2", labels=CONFIG), "shop/ReplicationController/till-2"),
        (_owned("ReplicationController", "cart-2-3", labels=CONFIG), "shop/ReplicationController/cart-2-3"),
        (_knative("hello-00001", "7f9"), "shop/Configuration/hello"),
        (_knative("hello-00002", "8c4"), "shop/Configuration/hello"),
        (_knative("hello-green", "8c4"), "shop/Configuration/hello"),  # a revision with a name of its own
        (
            _owned("ReplicaSet", "hello-7f9", labels={**_knative("x", "7f9")["metadata"]["labels"]}),
            "shop/ReplicaSet/hello",
        ),
        (_owned("Job", "backup-29384756"), "shop/CronJob/backup"),  # a CronJob's run
        (_owned("Job", "import-2"), "shop/Job/import-2"),
        (_owned("Node", "n1"), "shop/Pod/p-1"),  # a static pod comes back under its name
        # … and kubelet, which has no Node object to name, lists it without an owner.
        (
            {"metadata": {"namespace": "a", "name": "b", "annotations": {"kubernetes.io/config.source": "file"}}},
            "a/Pod/b",
        ),
        ({"metadata": {"namespace": "a", "name": "b", "annotations": {"kubernetes.io/config.source": "api"}}}, None),
        ({"metadata": {"namespace": "shop", "name": "alone"}}, None),
        ({"metadata": {"ownerReferences": [{"kind": "X", "name": "x"}]}}, None),  # owned, but not controlled
    ],
)
def test_workload_outlives_pod(pod: dict[str, Any], workload: str | None) -> None:
    """The workload's key is the same for every rollout and run of it."""
    assert pods.workload_key(pod) == workload
