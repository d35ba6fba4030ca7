"""What /healthz goes by: the watches, and kinds of objects that a cluster may do without."""

import time

from headroom.kube import ApiServer, Connection
from scheduler_plugins.extender.health import of_watches
from scheduler_plugins.plugins.capacity_scheduling import NAME, CapacityScheduling
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.watch import ClusterWatch
from tests.scheduler_plugins.objects import NOW


def _watch() -> ClusterWatch:
    api = ApiServer(Connection("http://127.0.0.1:1", None, lambda: None), "test")
    return ClusterWatch(api, ClusterCache(LoadRules(), {NAME: CapacityScheduling()}), lambda: NOW)


def test_unlisted_quotas_stop_answers() -> None:
    """Before quotas were listed nobody knows what a namespace may use: nothing is answered, and the CRD is named."""
    watch = _watch()
    health = of_watches(watch, 180)
    (complaint,) = [line for line in health.missing() if line.startswith("ElasticQuotas")]
    assert "elasticquotas.scheduling.x-k8s.io" in complaint


def test_unknown_quotas_stop_nothing() -> None:
    """A cluster that does not know the kind has no quota: all is well, and the verbose page names the CRD."""
    watch = _watch()
    for source in watch.sources:
        source.health.synced, source.health.last_contact = True, time.monotonic()
    health = of_watches(watch, 180)
    assert "[i]ElasticQuotas defined: ok\n" in health.verbose()
    (quotas,) = [source for source in watch.sources if source.kind == "ElasticQuotas"]
    quotas.health.not_found = True
    assert health.complaints() == []
    assert (
        "[i]ElasticQuotas defined: the cluster does not know ElasticQuotas, which counts as having none "
        "(is the CRD elasticquotas.scheduling.x-k8s.io installed, and may we list them?)\n"
    ) in health.verbose()


def test_only_quotas_may_be_unknown() -> None:
    """No other kind can be done without: NodeMetrics that nobody knows are a cluster without Headroom."""
    assert [source.kind for source in _watch().sources if source.absent_is_empty] == ["ElasticQuotas"]
