"""A real Kubernetes on this machine for tests, demo and benchmarks. Imports nothing of the services; not shipped.

    with tools.devcluster.Cluster(kwok_nodes=3) as cluster:
        print(cluster.kubectl("get", "nodes"))

The names below are looked up when they are first used: parts of this package run as small programs of the standard
library only, inside the node's namespaces, and import this module too.
"""

import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.devcluster.cluster import Cluster, ClusterSpec
    from tools.devcluster.commands import CommandError, DevClusterError, MissingRequirementError
    from tools.devcluster.kwok import NodeTemplate

__all__ = ["Cluster", "ClusterSpec", "CommandError", "DevClusterError", "MissingRequirementError", "NodeTemplate"]

PLACES = {
    "Cluster": "tools.devcluster.cluster:Cluster",
    "ClusterSpec": "tools.devcluster.cluster:ClusterSpec",
    "CommandError": "tools.devcluster.commands:CommandError",
    "DevClusterError": "tools.devcluster.commands:DevClusterError",
    "MissingRequirementError": "tools.devcluster.commands:MissingRequirementError",
    "NodeTemplate": "tools.devcluster.kwok:NodeTemplate",
}


def __getattr__(name: str) -> object:
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return pkgutil.resolve_name(PLACES[name])
