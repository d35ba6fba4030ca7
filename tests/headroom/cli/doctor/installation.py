"""An installation that is all right: two nodes, two managers, two schedulers."""

from typing import Final

from crds.priority import DEFAULT_VALUE, VALUES
from headroom.cli.doctor import permissions as rights
from tests.headroom.cli.doctor.world import (
    NAMESPACE,
    World,
    definition,
    lease,
    node,
    node_metric,
    pod,
    webhook,
    workload,
)

NODES: Final = ("node-1", "node-2")
POLICIES: Final = ("headroom", "headroom-agent", "headroom-manager", "headroom-scheduler")
CONFIG: Final = "slo-controller-config"
_KUBE_SCHEDULER: Final = """
leaderElection: {resourceName: headroom-scheduler}
profiles: [{schedulerName: headroom-scheduler}]
extenders: [{urlPrefix: "http://127.0.0.1:9820", ignorable: true}]
"""


def guard(world: World) -> None:
    """What the chart puts around the services."""
    for right in (rights.ADMISSION_POLICIES, rights.ADMISSION_BINDINGS, rights.FLOW_SCHEMAS, rights.PRIORITY_LEVELS):
        for name in right.names:
            world.add(right, {"metadata": {"name": name}})
    for name in POLICIES:
        own = {"app.kubernetes.io/part-of" if name == "headroom" else "app.kubernetes.io/name": name}
        spec = {"podSelector": {"matchLabels": own}, "policyTypes": ["Ingress"], "ingress": [{}]}
        world.add(rights.NETWORK_POLICIES, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})


def healthy() -> World:
    """A world in which doctor has nothing to complain about."""
    world = World()
    world.add(rights.NAMESPACES, {"metadata": {"name": NAMESPACE, "labels": {}}})
    for name in rights.CRDS:
        world.add(rights.DEFINITIONS, definition(name))
    for band in VALUES:
        body = {"metadata": {"name": str(band)}, "value": DEFAULT_VALUE[band], "preemptionPolicy": "Never"}
        world.add(rights.PRIORITY_CLASSES, body)
    world.add(rights.DAEMON_SETS, workload("headroom-agent", 2))
    flags = ("--webhook-listen=:9443", "--webhook-certificates=self")
    world.add(rights.DEPLOYMENTS, workload("headroom-manager", 2, *flags))
    world.add(rights.DEPLOYMENTS, workload("headroom-scheduler", 2))
    for number, name in enumerate(NODES):
        world.add(rights.NODES, node(name))
        world.add(rights.NODE_METRICS, node_metric(name))
        world.add(rights.PODS, pod("headroom-agent", f"agent-{number}", name, "agent"))
        world.add(rights.PODS, pod("headroom-manager", f"manager-{number}", name, "manager"))
        both = ("kube-scheduler", "extender")
        world.add(rights.PODS, pod("headroom-scheduler", f"scheduler-{number}", name, *both, prepared_by="check"))
    world.add(rights.LEASES, lease("headroom-manager", "manager-0"))
    world.add(rights.LEASES, lease("headroom-scheduler", "scheduler-1_3c1b"))
    world.add(rights.VALIDATING, webhook())
    guard(world)
    slice_labels = {"kubernetes.io/service-name": "headroom-manager-webhook"}
    world.add(
        rights.ENDPOINT_SLICES,
        {
            "metadata": {"name": "webhook-1", "namespace": NAMESPACE, "labels": slice_labels},
            "endpoints": [{"conditions": {"ready": True}}],
        },
    )
    config_maps = {
        CONFIG: {"colocation-config": '{"enable": true}'},
        "headroom-scheduler": {"kube-scheduler.yaml": _KUBE_SCHEDULER},
    }
    for name, data in config_maps.items():
        world.add(rights.CONFIG_MAPS, {"metadata": {"name": name, "namespace": NAMESPACE}, "data": data})
    return world
