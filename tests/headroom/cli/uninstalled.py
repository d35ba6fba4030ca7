"""A cluster in memory to uninstall from, and a clock on which things happen."""

import copy
from collections.abc import Callable
from typing import cast

from crds.names import ANNOTATION_CONFIG_STATE
from headroom.cli import manager_state
from headroom.cli.uninstall import command as uninstall
from headroom.cli.uninstall import plan as uninstall_plan
from headroom.cli.uninstall.plan import Asked
from headroom.cli.uninstall.stop import Clock
from headroom.kube import ApiServer, paths
from manager import node_metric
from tests.manager.made import FakeApi, Json, mid_pod, node, pod

NS = "headroom-system"
DEPLOYMENT = manager_state.deployment_path(NS)
LEASE = paths.lease(NS, "headroom-manager")
SCHEDULER = f"/apis/apps/v1/namespaces/{NS}/deployments/headroom-scheduler"
PLACER = paths.lease(NS, "placer")
CONFIG = paths.config_map(NS, "slo-controller-config")
LAST_GOOD = paths.config_map(NS, "headroom-last-good-config")
ACCOUNTS = paths.config_map(NS, "headroom-shadow-3")
SECRET = uninstall_plan.secret_path(NS)
OURS = [{"manager": "headroom-manager", "operation": "Apply", "fieldsV1": {"f:spec": {}}}]


class Stage:
    """A cluster after the manager has worked in it, and a clock on which things happen."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.now = 0.0
        self.happens: dict[float, Callable[[], None]] = {}
        for name, offered in (("idle", ("4000", "10Gi")), ("busy", ("6000", "8Gi")), ("plain", None)):
            self.api.put(paths.node(name), node(name, mid=offered))
            self.metric(name, OURS)
        self.api.put("/api/v1/pods/m", mid_pod("m", "2000", "1Gi", on="busy"))
        self.api.put("/api/v1/pods/done", mid_pod("done", on="idle", phase="Succeeded"))
        self.api.put("/api/v1/pods/p", pod("p", {"cpu": "1"}, on="idle"))
        annotations = {ANNOTATION_CONFIG_STATE: "in force", "mine": "stays"}
        self.api.put(
            CONFIG, {"metadata": {"name": "slo-controller-config", "annotations": annotations}, "data": {"a": "b"}}
        )
        self.api.put(LAST_GOOD, {"metadata": {"name": "headroom-last-good-config"}})
        self.api.put(ACCOUNTS, {"metadata": {"name": "headroom-shadow-3"}})
        self.api.put(SECRET, {"metadata": {"name": "headroom-manager-webhook-tls"}})
        self.lease("")
        self.api.put(DEPLOYMENT, {"metadata": {"name": "headroom-manager"}, "spec": {"replicas": 0}})
        arguments = [f"--leader-lease={NS}/placer"]
        template = {"spec": {"containers": [{"name": "kube-scheduler"}, {"name": "extender", "args": arguments}]}}
        body = {"metadata": {"name": "headroom-scheduler"}, "spec": {"replicas": 0, "template": template}}
        self.api.put(SCHEDULER, body)
        lease = {"holderIdentity": "", "renewTime": "2026-11-21T12:00:00Z", "leaseDurationSeconds": 15}
        self.api.put(PLACER, {"metadata": {"name": "placer", "uid": "placer"}, "spec": lease})

    def metric(self, name: str, managed: list[Json]) -> None:
        """A NodeMetric."""
        metadata = {"name": name, "uid": f"metric-{name}", "managedFields": managed}
        self.api.put(node_metric.path(name), {"metadata": metadata})

    def lease(self, holder: str, renewed: int = 0) -> None:
        """The Lease, renewed for the so-many-th time."""
        spec = {"holderIdentity": holder, "renewTime": f"2026-11-21T12:00:{renewed:02d}Z", "leaseDurationSeconds": 10}
        self.api.put(LEASE, {"metadata": {"name": "headroom-manager", "uid": "lease"}, "spec": spec})

    def renews(self, until: float) -> None:
        """A manager renews the Lease each second until a time."""
        for second in range(int(until)):
            self.happens[float(second)] = lambda second=second: self.lease("m-1", second)  # type: ignore[misc]

    async def sleep(self, seconds: float) -> None:
        """Time passes, and what is due happens."""
        self.now += seconds
        for when in sorted(each for each in self.happens if each <= self.now):
            self.happens.pop(when)()

    async def run(self, *, dry_run: bool = False, output: str = "table", **asked: bool) -> int:
        """Run the command."""
        clock = Clock(lambda: self.now, self.sleep)
        api = cast("ApiServer", self.api)
        return await uninstall.run(
            api, NS, "slo-controller-config", Asked(**asked), dry_run=dry_run, output=output, clock=clock
        )

    def mid(self, name: str) -> Json:
        """Mid resources of a Node."""
        status = self.api.objects[paths.node(name)]["status"]
        assert {k: v for k, v in status["capacity"].items() if "mid" in k} == {
            k: v for k, v in status["allocatable"].items() if "mid" in k
        }
        return {key.rpartition("-")[2]: amount for key, amount in status["capacity"].items() if "mid" in key}

    def objects(self) -> Json:
        """Everything there is."""
        return copy.deepcopy(self.api.objects)
