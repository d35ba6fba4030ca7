"""The extender's responses, and its charges."""

from collections import Counter

import msgspec
import numpy as np
import pytest

from scheduler_plugins.extender.service import Answering, Extender, Mode
from scheduler_plugins.extender.wire import Arguments, parse
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.framework.shortlist import Shortlist
from scheduler_plugins.plugins.load_aware import EXPIRED, NAME
from tests.scheduler_plugins.objects import NOW, Json, World, node, node_metric, pod

CPU = {"cpu": "1"}
HOT = "node(s) cpu usage exceed threshold"


def _extender(world: World, mode: Mode = Mode.SHORTLIST, size: int = 2, share: float = 0) -> Extender:
    cycle = Cycle([Enabled(NAME, 1.0, world.plugin)])
    return Extender(world.cache, cycle, Answering(mode, Shortlist(size, share)), lambda: NOW, np.random.default_rng(1))


def _cluster(**used: str) -> World:
    world = World()
    for name, cpu in used.items():
        world.put(node(name), node_metric(name, cpu=cpu))
    return world


def _ask(item: Json, *names: str) -> Arguments:
    return parse(msgspec.json.encode({"Pod": item, "NodeNames": names}))


@pytest.mark.parametrize(
    ("used", "candidates", "names"),
    [
        ({"a": "60", "b": "10", "c": "90", "d": "30"}, ["a", "b", "c", "d"], ["b", "d"]),  # no reason for the others
        ({"a": "60", "b": "10"}, ["a"], ["a"]),  # only the requested nodes
        # A node that the watch has not delivered may be the only one that fits: it passes, after all others.
        ({"a": "60", "b": "90"}, ["new", "a"], ["a", "new"]),
        ({"a": "60", "b": "90"}, ["new", "b"], ["new"]),
    ],
)
def test_shortlist_has_the_best(used: dict[str, str], candidates: list[str], names: list[str]) -> None:
    result = _extender(_cluster(**used)).filter(_ask(pod(), *candidates))
    assert list(result.names) == names
    assert not result.failed
    assert not result.unresolvable


def test_preferred_nodes_are_named() -> None:
    world = _cluster(a="1", b="3", c="5", d="7")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["d"]}]}
    preferred = [{"weight": 1, "preference": term}]
    item = pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}, requests=CPU)
    assert list(_extender(world).filter(_ask(item, "a", "b", "c", "d")).names) == ["a", "b", "d"]
    assert list(world.cache.in_flight["uid-p"].names) == ["d"]


def test_no_fitting_node_has_reasons() -> None:
    world = _cluster(a="90", b="90").put(node_metric("b", updated=-999))
    result = _extender(world).filter(_ask(pod(), "a", "b"))
    assert list(result.names) == []
    assert result.unresolvable == {"a": HOT, "b": EXPIRED}
    assert not result.failed


def test_shortlist_is_charged() -> None:
    world = _cluster(a="10", b="14", c="18", d="22")
    extender = _extender(world)
    big = {"cpu": "20"}
    assert list(extender.filter(_ask(pod("p", big), "a", "b", "c", "d")).names) == ["a", "b"]
    assert list(extender.filter(_ask(pod("q", big), "a", "b", "c", "d")).names) == ["c"]  # 18 %; a has 20, and b 24
    assert list(world.cache.in_flight["uid-q"].names) == ["c"]


def test_retry_sees_no_own_charge() -> None:
    world = _cluster(a="40")
    extender = _extender(world)
    item = pod("p", {"cpu": "20"})
    for _ in range(3):
        assert list(extender.filter(_ask(item, "a")).names) == ["a"]
    world.put(node_metric("a", cpu="60"))
    assert extender.filter(_ask(item, "a")).unresolvable == {"a": HOT}
    assert not world.cache.in_flight


def test_changed_pod_is_read_again() -> None:
    world = _cluster(a="60")
    extender = _extender(world)
    item = pod("p", {"cpu": "1"})
    assert list(extender.filter(_ask(item, "a")).names) == ["a"]
    item["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "50"
    assert list(extender.filter(_ask(item, "a")).names) == []


def _many(count: int) -> Json:
    item = pod()
    item["spec"]["containers"] = [
        {"name": f"c{index}", "resources": {"requests": {"cpu": f"{index + 1}m"}}} for index in range(count)
    ]
    return item


def _with_metadata(**metadata: object) -> Json:
    item = pod()
    return {**item, "metadata": {**item["metadata"], **metadata}}


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (pod(requests={"cpu": "lots"}), "spec.containers[0].resources.requests.cpu: 'lots' is not a quantity"),
        (_with_metadata(labels=5), "metadata.labels"),
        (_many(4500), "spec.containers: at most 250 items are allowed"),
        (pod(initContainers=_many(251)["spec"]["containers"]), "spec.initContainers: at most 250 items are allowed"),
        (pod(nodeSelector={f"{index}": "x" * 1000 for index in range(70)}), "spec.nodeSelector: 70551 of"),
        (
            pod(overhead={f"a.b/{number}": "1" for number in range(1001)}),
            "spec.overhead: at most 1000 items are allowed",
        ),
        (pod(affinity={"podAntiAffinity": "x"}), "spec.affinity.podAntiAffinity: must be object, got str"),
    ],
    ids=["quantity", "labels", "containers", "init containers", "bytes", "amounts", "affinity"],
)
def test_unreadable_pod_is_refused(item: Json, reason: str) -> None:
    result = _extender(_cluster(a="1")).filter(_ask(item, "a", "unknown"))
    assert (list(result.names), result.error, result.failed) == ([], "", None)
    assert set(result.unresolvable or ()) == {"a", "unknown"}
    texts = (result.unresolvable or {})["a"]
    assert texts.startswith("the pod cannot be read: ")
    assert reason in texts


def test_bound_pod_of_many_containers_is_load() -> None:
    world = _cluster(a="1")
    large = _many(4500)
    large["spec"]["nodeName"] = "a"
    world.put(large)
    result = world.cache.ledger("a")
    assert result is not None
    assert result.sums.estimated[0] == sum(range(1, 251))


def test_weighted_draws_the_winner() -> None:
    world = _cluster(a="60", b="10", c="10")
    arguments = _ask(pod("p", {"cpu": "1"}), "a", "b", "c")
    scores = dict(zip(arguments.names, _extender(world, Mode.WEIGHTED).prioritize(arguments).tolist(), strict=True))
    (favourite,) = world.cache.in_flight["uid-p"].names
    (other,) = {"b", "c"} - {favourite}
    assert scores[favourite] == scores[other] + 1
    assert scores["a"] < scores[other]


def test_lists_are_short_in_a_burst() -> None:
    world = World()
    for number, name in enumerate("abcdefg"):
        labels = {"topology.kubernetes.io/zone": "1" if number < 4 else "2"}
        world.put({**node(name), "metadata": {"name": name, "labels": labels}}, node_metric(name, cpu="10"))
    extender = _extender(world, size=4)
    owned = pod("p", CPU)
    owned["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet"}]
    assert len(extender.filter(_ask(owned, *"abcdefg")).names) == 7
    world.cache.release("uid-p")
    sizes = [len(extender.filter(_ask(pod(f"p{number}", CPU), *"abcdefg")).names) for number in range(6)]
    assert sizes == [4, 2, 1, 1, 1, 1]
    assert len(extender.filter(_ask({**owned, "metadata": {**owned["metadata"], "uid": "q"}}, *"abcdefg")).names) == 2


def test_burst_elsewhere_leaves_lists_long() -> None:
    extender = _extender(_cluster(a="10", b="10", c="10", d="10"))
    for number in range(8):
        extender.filter(_ask(pod(f"p{number}", CPU), "c", "d"))
    assert len(extender.filter(_ask(pod("q"), "a", "b")).names) == 2


def test_burst_stays_below_the_threshold() -> None:
    world = _cluster(a="40", b="40", c="40", d="40")
    extender = _extender(world, size=4)
    landed: Counter[str] = Counter()
    for number in range(40):
        result = extender.filter(_ask(pod(f"p{number}", {"cpu": "5"}), "a", "b", "c", "d")).names
        if result:
            landed[max(result)] += 1  # like a scheduler with its own preference
    assert all(40 + 5 * count <= 65 for count in landed.values())
    assert sum(landed.values()) >= 14  # of the 20 that fit: the first lists were long
