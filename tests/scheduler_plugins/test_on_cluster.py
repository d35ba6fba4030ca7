"""The extender beside the real kube-scheduler, on kwok nodes with NodeMetrics written by the test.

kube-scheduler calls it in each possible configuration: over HTTP and TLS, and by a subset of its verbs.
"""

import ssl
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

from tests.scheduler_plugins import priorities
from tests.scheduler_plugins.extenders import NO_SCORES, Json, configuration, load_aware, profile, until
from tests.scheduler_plugins.stage import Stage, among
from tools.devcluster import Cluster
from tools.devcluster.certs import Pki

pytestmark = pytest.mark.cluster

HOT = "node(s) cpu usage exceed threshold"
SHORTLIST, SHIPPED = "headroom-shortlist", "headroom-shipped"
OVER_TLS, SCORES, WITHOUT = "headroom-over-tls", "headroom-scores-alone", "headroom-without-preempt"
PRIORITIES: Final = {"wiring-lowest": 10, "wiring-low": 20, "wiring-high": 1000}
HOSTNAME: Final = "kubernetes.io/hostname"


def _configuration(name: str, url: str, pki: Pki, *removed: str) -> Json:
    result = configuration("weighted", name, url)
    result["profiles"][0]["plugins"] = NO_SCORES
    client = pki.client(name, name)
    tls = {"caFile": str(pki.ca), "certFile": str(client.cert), "keyFile": str(client.key)}
    (extender,) = result["extenders"]
    extender |= {"enableHTTPS": True, "tlsConfig": tls, "ignorable": False}
    result["extenders"] = [{key: value for key, value in extender.items() if key not in removed}]
    return result


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """Twelve nodes of 32 cores; one of three extenders requires certificates, and three kube-schedulers call them."""
    pki = Pki(cluster.dir / "wiring-pki")
    pair, probe = pki.server("extender", ["127.0.0.1"]), pki.client("probe", "probe")
    context = ssl.create_default_context(cafile=pki.ca)
    context.load_cert_chain(probe.cert, probe.key)
    flags = [f"--tls-cert-file={pair.cert}", f"--tls-private-key-file={pair.key}", f"--tls-client-ca-file={pki.ca}"]
    with Stage.open(cluster, "load-aware", 12) as stage:
        for name, value in PRIORITIES.items():
            priorities.make(cluster, name, value)
        stage.add(SHORTLIST, profile("shortlist", [load_aware()]))
        by_cpu = load_aware(resourceWeights={"cpu": 1})  # the score is the free share of the CPU
        stage.add(SHIPPED, profile("weighted", [by_cpu]))  # beside the scores of kube-scheduler
        url = stage.add_extender("extender-wiring", profile("weighted"), flags=flags, context=context).url
        stage.add_scheduler(OVER_TLS, _configuration(OVER_TLS, url, pki))
        stage.add_scheduler(SCORES, _configuration(SCORES, url, pki, "filterVerb", "preemptVerb"))
        stage.add_scheduler(WITHOUT, _configuration(WITHOUT, url, pki, "preemptVerb"))
        stage.wait()
        yield stage
        for name in PRIORITIES:
            priorities.remove(cluster, name)


@pytest.mark.parametrize("scheduler", [SHORTLIST, OVER_TLS])
def test_hot_node_is_refused(stage: Stage, scheduler: str) -> None:
    hot, name = stage.nodes[0], f"hot-{scheduler}"
    stage.settle({hot: 30})
    stage.create(stage.pod(name, scheduler, selector={HOSTNAME: hot}))
    stage.refused(name, HOT)
    stage.settle({})
    # kube-scheduler does not watch NodeMetrics: any change of the pod requeues it.
    stage.cluster.api.merge(f"{stage.path}/{name}", {"metadata": {"labels": {"look": "again"}}})
    assert stage.placed(name) == [hot]


@pytest.mark.parametrize("scheduler", [OVER_TLS, SCORES])
def test_coolest_node_wins(stage: Stage, scheduler: str) -> None:
    stage.clear()
    coolest = stage.nodes[7]
    stage.settle({coolest: 1}, otherwise=12)
    assert stage.place(stage.pod("coolest", scheduler, cpu="100m")) == [coolest]


def _prefer(nodes: dict[str, int]) -> Json:
    hosts = {node: [{"key": HOSTNAME, "operator": "In", "values": [node]}] for node in nodes}
    soft = [{"weight": nodes[node], "preference": {"matchExpressions": match}} for node, match in hosts.items()]
    required = among(*nodes)["nodeAffinity"]
    return {"nodeAffinity": {**required, "preferredDuringSchedulingIgnoredDuringExecution": soft}}


@pytest.mark.parametrize(("weight", "cooler"), [(79, False), (81, True)])
def test_weights_apply(stage: Stage, weight: int, cooler: bool) -> None:  # noqa: FBT001 - a parameter
    """In weighted mode the extender's 0 to 100 counts ten times, like a plugin of weight 1 with ten times that weight.

    The cool node is 93 - 53 = 40 points better by load: 40 * 10. By affinity the warm one is better: it has 100 points,
    the cool one as many as its weight, each counts 20, so the tie is at (100 - 80) * 20.
    """
    stage.clear()
    cool, warm = stage.nodes[:2]
    stage.settle({cool: 2, warm: 14.88})  # of 32 cores, and the pod's 0.085: 93.5 and 53.2 percent are left
    pod = stage.pod("torn", SHIPPED, cpu="100m", affinity=_prefer({warm: 100, cool: weight}))
    assert stage.place(pod) == [cool if cooler else warm]


@pytest.mark.parametrize("scheduler", [OVER_TLS, SCORES])
def test_burst_does_not_pile_up(stage: Stage, scheduler: str) -> None:
    """Sixty pods at once spread beyond the coldest node, though reports stay the same and no other plugin scores."""
    stage.clear()
    coldest = stage.nodes[5]
    stage.settle({coldest: 1}, otherwise=6)
    names = [f"burst-{index}" for index in range(60)]
    stage.create(*(stage.pod(name, scheduler) for name in names))
    where = Counter(stage.placed(*names))
    assert len(where) >= 8
    assert max(where.values()) <= 20


@pytest.mark.parametrize("scheduler", [OVER_TLS, WITHOUT])
def test_no_victims_on_hot_nodes(stage: Stage, scheduler: str) -> None:
    """Pods are evicted only where the pod fits then, not on a node that stays hot, unlike without the preempt verb."""
    stage.clear()
    hot, cool = stage.nodes[0], stage.nodes[1]
    stage.settle({hot: 30, cool: 2})
    # By itself kube-scheduler evicts the least important victim: on the hot node.
    for node, priority in ((hot, "wiring-lowest"), (cool, "wiring-low")):
        stage.create(stage.pod(f"victim-{node}", cpu="20", node=node, priorityClassName=priority))
    stage.seen()
    preemptor = stage.pod("preemptor", scheduler, "20", affinity=among(hot, cool), priorityClassName="wiring-high")
    if scheduler == OVER_TLS:
        assert stage.place(preemptor) == [cool]
        assert f"victim-{hot}" in stage.where()
    else:
        stage.create(preemptor)
        until(lambda: f"victim-{hot}" not in stage.where(), "a useless eviction")


def test_killed_extender_is_ignored(stage: Stage) -> None:
    stage.clear()
    hot = stage.nodes[1]
    stage.settle({hot: 30})
    extender, selector = stage.extenders[0], {HOSTNAME: hot}
    extender.kill()
    stage.create(stage.pod("ignored", SHORTLIST, selector=selector))
    assert stage.placed("ignored") == [hot]
    extender.restart()
    stage.settle({hot: 30})
    stage.create(stage.pod("heeded", SHORTLIST, selector=selector))
    stage.refused("heeded", HOT)


def test_api_server_outage(stage: Stage) -> None:
    """During an outage of the API server the extender uses its cache; afterwards it follows the cluster again."""
    hot, other = stage.nodes[2], stage.nodes[3]
    stage.settle({hot: 30})
    extender = stage.extenders[0]
    stage.cluster.apiserver.stop()
    try:
        assert extender.passing(hot, other) == [other]
    finally:
        stage.cluster.apiserver.start()
    stage.settle({other: 30})
    until(lambda: extender.passing(hot, other) == [hot], "following the cluster again")
