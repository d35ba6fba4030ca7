"""Topology spread and inter-pod affinity in the model of kube-scheduler's filters."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugins.preemption.constraints.pod_affinity import KEPT_AWAY, TOO_FAR, TOO_NEAR
from scheduler_plugins.preemption.constraints.spread import NO_DOMAIN, UNEVEN
from scheduler_plugins.preemption.fit import FitModel
from scheduler_plugins.quota.pod import QuotaPod
from tests.scheduler_plugins.objects import NOW
from tests.scheduler_plugins.preemption.fitted import REQUIRED, ZONE, cluster, misfit, never, node, pod
from tests.scheduler_plugins.preemption.random_pods import HOST, NAMESPACES, POOL, RANK, ZONES, RandomPods
from tests.scheduler_plugins.preemption.random_pods import ZONE as ANY_ZONE

Json = dict[str, Any]
WEB = {"app": "web"}
ALL_WEB = {"matchLabels": WEB}


def _spread(**more: Any) -> Json:  # noqa: ANN401 - of a constraint
    base = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": ALL_WEB}
    return {**base, **more}


def _asked(*constraints: Json, **spec: Any) -> Json:  # noqa: ANN401 - of a pod
    return pod(labels=WEB, topologySpreadConstraints=list(constraints), **spec)


def _web(name: str, where: str, **more: Any) -> Json:  # noqa: ANN401 - as pod has it
    return pod(name, where, labels=WEB, **more)


def _zones(**pods: int) -> list[Json]:
    """A node for each zone, of its name, with so many pods."""
    nodes = [node(zone, {ZONE: zone}) for zone in pods]
    return nodes + [_web(f"{zone}{number}", zone) for zone, count in pods.items() for number in range(count)]


def test_spread() -> None:
    """A pod may not go where there would be more than the skew above the emptiest domain."""
    there = cluster(*_zones(a=2, b=1, c=1))
    assert [misfit(_asked(_spread()), there, zone) for zone in "abc"] == [UNEVEN, None, None]
    assert misfit(_asked(_spread(maxSkew=2)), there, "a") is None
    assert never(_asked(_spread()), there, "a") is None


def test_eviction_evens() -> None:
    """Taking pods away lets a pod in where they were, and keeps it out where others are then too many."""
    there = cluster(*_zones(a=2, b=1, c=1))
    assert misfit(_asked(_spread()), there, "a", ["a0"]) is None
    assert misfit(_asked(_spread()), there, "b", ["c0"]) == UNEVEN
    assert misfit(_asked(_spread()), there, "c", ["c0"]) is None


def test_who_is_counted_for_spread() -> None:
    """Pods of other namespaces, with other labels, or on their way out are not counted."""
    strangers = [
        _web("x", "a", namespace="other"),
        pod("y", "a", labels={"app": "db"}),
        _web("z", "a"),
    ]
    strangers[2]["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    assert misfit(_asked(_spread()), cluster(*_zones(a=0, b=0), *strangers), "a") is None
    assert misfit(_asked(_spread()), cluster(*_zones(a=1, b=0)), "a") == UNEVEN


def test_spread_without_itself() -> None:
    """A pod that its own selector does not mean adds nothing."""
    other = pod(labels={"app": "db"}, topologySpreadConstraints=[_spread()])
    assert misfit(other, cluster(*_zones(a=1, b=0)), "a") is None


def test_nodes_without_domain() -> None:
    """A node without the label takes no such pod, and its pods do not count; all labels must be there to count."""
    there = cluster(*_zones(a=1, b=0), node("none"), _web("lost", "none"))
    assert misfit(_asked(_spread()), there, "none") == never(_asked(_spread()), there, "none") == NO_DOMAIN
    both = _asked(_spread(), _spread(topologyKey="rack", maxSkew=9))
    halved = cluster(node("a", {ZONE: "a", "rack": "1"}), node("b", {ZONE: "b"}), _web("p", "a"))
    assert misfit(both, halved, "a") is None  # b is no domain at all: it has no rack


def test_fewer_domains_than_wanted() -> None:
    """While there are too few domains the emptiest counts as empty."""
    there = cluster(*_zones(a=1, b=1))
    assert misfit(_asked(_spread(minDomains=2)), there, "a") is None
    assert misfit(_asked(_spread(minDomains=3)), there, "a") == UNEVEN


@pytest.mark.parametrize(("policy", "reason"), [({}, None), ({"nodeAffinityPolicy": "Ignore"}, UNEVEN)])
def test_spread_over_nodes_asked_for(policy: Mapping[str, str], reason: str | None) -> None:
    """Domains that the pod does not ask for count only if they are to."""
    there = cluster(*_zones(a=1, b=0), _web("more", "a"))
    asked = _asked(_spread(maxSkew=2, **policy), nodeSelector={ZONE: "a"})
    assert misfit(asked, there, "a") == reason


@pytest.mark.parametrize(("policy", "reason"), [({}, UNEVEN), ({"nodeTaintsPolicy": "Honor"}, None)])
def test_spread_over_tainted_nodes(policy: Mapping[str, str], reason: str | None) -> None:
    """Domains whose taints the pod does not tolerate count unless they are not to."""
    tainted = node("b", {ZONE: "b"}, taints=[{"key": "k", "effect": "NoSchedule"}])
    there = cluster(node("a", {ZONE: "a"}), tainted, _web("p", "a"))
    assert misfit(_asked(_spread(**policy)), there, "a") == reason


def test_spread_by_own_labels() -> None:
    """`matchLabelKeys` counts only pods that have the same values; a key that the pod lacks says nothing."""
    there = cluster(*_zones(a=2, b=0))
    there.put_pod(pod("new", "a", labels={**WEB, "rev": "2"}))
    asked = pod(labels={**WEB, "rev": "2"}, topologySpreadConstraints=[_spread(matchLabelKeys=["rev", "absent"])])
    assert misfit(asked, there, "a") == UNEVEN
    assert misfit(asked, there, "a", ["new"]) is None


@pytest.mark.parametrize("selector", [{}, None])
def test_empty_spread_selectors(selector: Json | None) -> None:
    """A selector that is empty or missing counts nobody."""
    assert misfit(_asked(_spread(labelSelector=selector)), cluster(*_zones(a=5, b=0)), "a") is None


def test_soft_spread_is_no_filter() -> None:
    """ScheduleAnyway keeps nobody out."""
    assert misfit(_asked(_spread(whenUnsatisfiable="ScheduleAnyway")), cluster(*_zones(a=5, b=0)), "a") is None


def test_claims_count_for_spread() -> None:
    """A pod must be spread with and without the pods that are nominated to the node."""
    waiting = _web("w", "", status={"nominatedNodeName": "b"})
    assert misfit(_asked(_spread()), cluster(*_zones(a=0, b=0), waiting), "b") == UNEVEN
    assert misfit(_asked(_spread()), cluster(*_zones(a=0, b=0), waiting), "a") is None


def _term(**more: Any) -> Json:  # noqa: ANN401 - of a term
    return {"topologyKey": ZONE, "labelSelector": ALL_WEB, **more}


def _near(*terms: Json) -> Json:
    return {"podAffinity": {REQUIRED: list(terms)}}


def _away(*terms: Json) -> Json:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def test_affinity() -> None:
    """A pod must be where those are that it must be near; no eviction brings them."""
    there = cluster(*_zones(a=1, b=0), node("none"))
    asked = pod(affinity=_near(_term()))
    assert [misfit(asked, there, name) for name in ("a", "b", "none")] == [None, TOO_FAR, TOO_FAR]
    assert [never(asked, there, name) for name in ("a", "b", "none")] == [None, TOO_FAR, TOO_FAR]
    assert misfit(asked, there, "a", ["a0"]) == TOO_FAR


def test_all_terms_of_affinity() -> None:
    """One pod must match all terms, and each term's topology must hold."""
    there = cluster(*_zones(a=1, b=0), pod("db", "b", labels={"app": "db"}))
    either = pod(affinity=_near(_term(), _term(labelSelector={"matchLabels": {"app": "db"}})))
    assert misfit(either, there, "a") == misfit(either, there, "b") == TOO_FAR
    twice = pod(affinity=_near(_term(), _term(topologyKey="host")))
    same_zone = cluster(node("a", {ZONE: "1"}), node("b", {ZONE: "1"}), _web("p", "a"))
    assert [misfit(twice, same_zone, name) for name in ("a", "b")] == [None, TOO_FAR]


def test_first_of_a_series() -> None:
    """The first of pods that want to be near each other may go anywhere with the label; the second may not."""
    first = pod(labels=WEB, affinity=_near(_term()))
    assert misfit(first, cluster(*_zones(a=0, b=0)), "b") is None
    assert misfit(first, cluster(*_zones(a=1, b=0)), "b") == TOO_FAR
    assert misfit(first, cluster(*_zones(a=1, b=0)), "b", ["a0"]) is None
    assert misfit(first, cluster(node()), "n") == TOO_FAR


def test_anti_affinity() -> None:
    """A pod may not be where those are that it keeps away from, until they are gone."""
    there = cluster(*_zones(a=1, b=0), node("none"), _web("p", "none"))
    asked = pod(affinity=_away(_term()))
    assert [misfit(asked, there, name) for name in ("a", "b", "none")] == [TOO_NEAR, None, None]
    assert misfit(asked, there, "a", ["a0"]) is None
    assert never(asked, there, "a") is None


def test_others_keep_away() -> None:
    """A pod may not be where others are that keep it away, until they are gone, wherever they are in the zone."""
    keeper = pod("keeper", "a", affinity=_away(_term()))
    there = cluster(node("a", {ZONE: "1"}), node("b", {ZONE: "1"}), node("c", {ZONE: "2"}), keeper)
    asked = pod(labels=WEB)
    assert [misfit(asked, there, name) for name in "abc"] == [KEPT_AWAY, KEPT_AWAY, None]
    assert misfit(asked, there, "b", ["keeper"]) is None
    assert misfit(pod(labels={"app": "db"}), there, "a") is None
    there.delete_pod("keeper")
    assert misfit(asked, there, "a") is None


@pytest.mark.parametrize(
    ("term", "reason"),
    [
        ({}, None),  # of its own namespace
        ({"namespaces": ["other"]}, TOO_NEAR),
        ({"namespaceSelector": {}}, TOO_NEAR),  # all
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, TOO_NEAR),
        ({"namespaceSelector": {"matchLabels": {"team": "y"}}}, None),
        ({"namespaces": ["third"], "namespaceSelector": {"matchLabels": {"team": "y"}}}, None),
    ],
)
def test_namespaces_of_terms(term: Json, reason: str | None) -> None:
    """Whose pods a term means: named, by labels, all, or those of the pod's own namespace."""
    namespace = {"metadata": {"name": "other", "labels": {"team": "x"}}}
    there = cluster(namespace, *_zones(a=0), _web("p", "a", namespace="other"))
    assert misfit(pod(affinity=_away(_term(**term))), there, "a") == reason
    keeper = pod("keeper", "a", affinity=_away(_term(**term)))
    there = cluster(namespace, *_zones(a=0), keeper)
    asked = pod(labels=WEB, namespace="other")
    assert misfit(asked, there, "a") == (KEPT_AWAY if reason else None)


def test_claims_count_for_affinity() -> None:
    """A pod that is nominated keeps others away, but nobody may count on its company."""
    waiting = _web("w", "", status={"nominatedNodeName": "a"})
    there = cluster(*_zones(a=0), waiting)
    assert misfit(pod(affinity=_away(_term())), there, "a") == TOO_NEAR
    assert misfit(pod(affinity=_near(_term())), there, "a") == TOO_FAR


@given(st.integers(0, 10**6))
def test_taken_away_is_as_never_there(seed: int) -> None:
    """A pod fits without some pods exactly where it fits in a cluster that never had them."""
    random = Random(seed)  # noqa: S311 - nothing secret
    names = [f"n{number}" for number in range(4)]
    nodes = [
        node(name, {POOL: "yes", HOST: name, RANK: str(number), **({ANY_ZONE: ZONES[number % 3]} if number else {})})
        for number, name in enumerate(names)
    ]
    namespaces = [{"metadata": {"name": NAMESPACES[0], "labels": {"team": "one"}}}]
    pods = RandomPods(seed, "any", names)
    there = []
    for _ in range(12):
        made = pods.make()
        made["metadata"]["uid"] = made["metadata"]["name"]
        placed = random.randrange(4) > 0
        made["status"] = {} if placed else {"nominatedNodeName": random.choice(names)}
        if placed:
            made["spec"]["nodeName"] = random.choice(names)
        there.append(made)
    gone = {made["metadata"]["uid"] for made in there if "nodeName" in made["spec"] and random.randrange(3) == 0}
    full = cluster(*namespaces, *nodes, *there)
    empty = cluster(*namespaces, *nodes, *(made for made in there if made["metadata"]["uid"] not in gone))
    fitting, fresh = FitModel(full, full.nominations(NOW)), FitModel(empty, empty.nominations(NOW))
    for _ in range(2):
        asked = QuotaPod.from_json(pods.make())
        for name in names:
            assert fitting.misfit(asked, name, gone) == fresh.misfit(asked, name, frozenset()), name
            assert not fresh.never(asked, name) or fresh.misfit(asked, name, frozenset()), name
