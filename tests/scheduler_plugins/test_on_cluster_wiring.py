"""Other ways to wire a kube-scheduler to the extender: over TLS, scores alone, and preemption."""

import ssl
from collections.abc import Iterator
from typing import Final

import pytest

from tests.scheduler_plugins import priorities
from tests.scheduler_plugins.extenders import NO_SCORES, Json, configuration, profile, until
from tests.scheduler_plugins.stage import Stage, among
from tools.devcluster import Cluster
from tools.devcluster.certs import Pki

pytestmark = pytest.mark.cluster

HOT = "node(s) cpu usage exceed threshold"
OVER_TLS, SCORES, WITHOUT = "headroom-over-tls", "headroom-scores-alone", "headroom-without-preempt"
PRIORITIES: Final = {"wiring-lowest": 10, "wiring-low": 20, "wiring-high": 1000}
HOSTNAME: Final = "kubernetes.io/hostname"


def _configuration(name: str, url: str, pki: Pki, *removed: str, **changed: object) -> Json:
    """What is shipped, over TLS with a client certificate, without scores of kube-scheduler's own."""
    found = configuration("weighted", name, url)
    found["profiles"][0]["plugins"] = NO_SCORES
    client = pki.client(name, name)
    tls = {"caFile": str(pki.ca), "certFile": str(client.cert), "keyFile": str(client.key)}
    (extender,) = found["extenders"]
    extender |= {"enableHTTPS": True, "tlsConfig": tls, "ignorable": False, **changed}
    found["extenders"] = [{key: value for key, value in extender.items() if key not in removed}]
    return found


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """Four nodes, one extender that wants to see certificates, and three kube-schedulers that ask it differently."""
    pki = Pki(cluster.dir / "wiring-pki")
    pair, probe = pki.server("extender", ["127.0.0.1"]), pki.client("probe", "probe")
    context = ssl.create_default_context(cafile=pki.ca)
    context.load_cert_chain(probe.cert, probe.key)
    flags = [f"--tls-cert-file={pair.cert}", f"--tls-private-key-file={pair.key}", f"--tls-client-ca-file={pki.ca}"]
    with Stage.open(cluster, "wiring", 4) as stage:
        for name, value in PRIORITIES.items():
            priorities.make(cluster, name, value)
        url = stage.add_extender("extender-wiring", profile("weighted"), flags=flags, context=context).url
        stage.add_scheduler(OVER_TLS, _configuration(OVER_TLS, url, pki))
        stage.add_scheduler(SCORES, _configuration(SCORES, url, pki, "filterVerb", "preemptVerb"))
        stage.add_scheduler(WITHOUT, _configuration(WITHOUT, url, pki, "preemptVerb"))
        stage.wait()
        yield stage
        for name in PRIORITIES:
            priorities.remove(cluster, name)


def test_requests_over_tls(stage: Stage) -> None:
    hot, coolest = stage.nodes[0], stage.nodes[2]
    stage.settle({hot: 30, coolest: 1}, otherwise=12)
    stage.create(stage.pod("tls-hot", OVER_TLS, selector={HOSTNAME: hot}))
    stage.refused("tls-hot", HOT)
    assert stage.place(stage.pod("tls", OVER_TLS, cpu="100m")) == [coolest]


def test_scores_alone_decide(stage: Stage) -> None:
    """With prioritizeVerb and nothing else the coolest node wins, and a burst does not pile up on it."""
    coolest = stage.nodes[3]
    stage.settle({coolest: 1}, otherwise=6)
    assert stage.place(stage.pod("scored", SCORES, cpu="100m")) == [coolest]
    names = [f"burst-{index}" for index in range(24)]
    stage.create(*(stage.pod(name, SCORES) for name in names))
    where = stage.placed(*names)
    assert max(map(where.count, stage.nodes)) <= 12
    stage.clear()


@pytest.mark.parametrize("scheduler", [OVER_TLS, WITHOUT])
def test_no_victims_on_hot_nodes(stage: Stage, scheduler: str) -> None:
    """Pods are evicted where that makes room, not from a node that stays too hot; without our preempt verb they are."""
    hot, cool = stage.nodes[0], stage.nodes[1]
    stage.settle({hot: 30, cool: 2})
    # By itself kube-scheduler evicts where the victim matters least: on the hot node.
    for node, priority in ((hot, "wiring-lowest"), (cool, "wiring-low")):
        stage.create(stage.pod(f"victim-{node}", cpu="20", node=node, priorityClassName=priority))
    stage.seen()
    preemptor = stage.pod("preemptor", scheduler, "20", affinity=among(hot, cool), priorityClassName="wiring-high")
    if scheduler == OVER_TLS:
        assert stage.place(preemptor) == [cool]
        assert f"victim-{hot}" in stage.where()
    else:
        stage.create(preemptor)
        until(lambda: f"victim-{hot}" not in stage.where(), "an eviction that helps nobody")
    stage.clear()
