"""The checks: one row each."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from enum import Flag, auto
from pkgutil import resolve_name
from typing import Final

from kubectl_headroom.doctor import permissions as may
from kubectl_headroom.doctor.cluster import Cluster
from kubectl_headroom.doctor.finding import Finding
from kubectl_headroom.doctor.permissions import Permission

CheckFunction = Callable[[Cluster], Iterator[Finding] | AsyncIterator[Finding]]
"""Returns at least one finding, and one that is ok where nothing is wrong; asynchronous only to try something out."""


class Stage(Flag):
    """When a check runs."""

    INSTALLED = auto()  # when Headroom is installed
    PREFLIGHT = auto()  # before an install
    ALWAYS = INSTALLED | PREFLIGHT  # then and then


@dataclass(frozen=True, slots=True)
class Check:
    """A row."""

    name: str  # what users see
    where: str  # "module:function" in `kubectl_headroom.doctor.checks`
    docs: str  # the page below docs/ of its warnings and errors
    reads: tuple[Permission, ...] = ()  # all that it may read, in this order
    stage: Stage = Stage.INSTALLED  # when it runs

    def load(self) -> CheckFunction:
        function: CheckFunction = resolve_name(f"kubectl_headroom.doctor.checks.{self.where}")
        return function


WORKLOADS: Final = (may.DAEMON_SETS, may.DEPLOYMENTS)  # of our components; of all namespaces
_CONFIG: Final = (may.DEPLOYMENTS, may.CONFIG_MAPS)  # the manager's flags name the ConfigMap

CHECKS: Final = (
    Check("kubernetes", "prerequisites:kubernetes", "compatibility.md", stage=Stage.ALWAYS),
    Check("install", "access:install", "install.md", stage=Stage.PREFLIGHT),
    Check("nodes", "prerequisites:nodes", "compatibility.md", (may.NODES,), Stage.ALWAYS),
    Check("crds", "crds:check", "upgrade.md", (may.DEFINITIONS,), Stage.ALWAYS),
    Check("pod-security", "prerequisites:pod_security", "security.md", (may.NAMESPACES, *WORKLOADS), Stage.ALWAYS),
    Check("priority-classes", "prerequisites:priority_classes", "install.md", (may.PRIORITY_CLASSES,), Stage.ALWAYS),
    Check("manager", "services:manager", "troubleshooting.md", (*WORKLOADS, may.PODS, may.LEASES)),
    Check("webhook", "webhook:check", "troubleshooting.md", (*_CONFIG, may.VALIDATING, may.ENDPOINT_SLICES)),
    Check("config", "config:check", "configuration.md", (*_CONFIG, may.NODES)),
    Check(
        "agents",
        "agents:check",
        "troubleshooting.md",
        (*WORKLOADS, may.NODES, may.PODS, may.CONFIG_MAPS, may.NODE_METRICS),
    ),
    Check("clocks", "clocks:check", "troubleshooting.md", (may.NODE_METRICS, *_CONFIG)),
    Check("hot-nodes", "hot_nodes:check", "hot-nodes.md", (may.NODES, may.NODE_METRICS)),
    Check("mid-pods", "mid_pods:check", "concepts.md", (may.ALL_PODS, may.NODE_METRICS)),
    Check("mid-namespaces", "mid_pods:namespaces", "profiles.md", (may.ALL_NAMESPACES, may.ALL_PODS)),
    Check(
        "profiles",
        "profiles:check",
        "profiles.md",
        (may.PROFILES, may.PRIORITY_CLASSES, may.MUTATING, may.ALL_NAMESPACES, may.ALL_PODS),
    ),
    Check("scheduler", "services:scheduler", "scheduler.md", (*_CONFIG, may.PODS, may.LEASES)),
    Check("extender", "services:extender", "scheduler.md", (*_CONFIG, may.PODS)),
    Check(
        "koordinator",
        "koordinator:check",
        "migration.md",
        (*WORKLOADS, may.VALIDATING, may.MUTATING, may.NODE_METRICS),
        Stage.ALWAYS,
    ),
)
"""In the order in which they are printed."""

READS: Final = tuple(dict.fromkeys(read for check in CHECKS for read in check.reads))
"""All of it, but for what every login may do: `/version`, and reviews of oneself (`selfsubjectaccessreviews`).

The ClusterRole of `helm test` grants just this, which a test compares. A login that may patch the colocation ConfigMap,
by an access review, has the webhook tried, too; `helm test` may not.
"""
