"""The requirements of Headroom: API server, Nodes, namespace and PriorityClasses."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from crds.priority import VALUES, PriorityBand, band_of_value
from kubectl_headroom.doctor.cluster import Cluster
from kubectl_headroom.doctor.finding import Finding, Severity, about, count, error, info, named, ok, warning
from kubectl_headroom.doctor.installation import installed_elsewhere, upgrade
from kubectl_headroom.doctor.objects import MANAGER, is_linux, labels, name, node_info
from kubectl_headroom.doctor.permissions import NAMESPACES, NODES, PRIORITY_CLASSES

Json = Mapping[str, Any]

_OLDEST: Final = (1, 30)  # the oldest Kubernetes that the chart installs on
_OLDEST_KUBELET_SKEW: Final = 3
_CLOCK_SECONDS: Final = 10.0
_ARCHITECTURES: Final = ("amd64", "arm64")
_ENFORCE: Final = "pod-security.kubernetes.io/enforce"


def kubernetes(cluster: Cluster) -> Iterator[Finding]:
    """Version of the API server, and whether its clock agrees with ours."""
    version = minor(cluster.version)
    if version is None:
        yield info(f"The API server's version is {cluster.version!r}, which is no version of Kubernetes.")
    elif version < _OLDEST:
        yield error(
            f"The API server is Kubernetes {cluster.version}; Headroom needs 1.30 or newer.",
            "upgrade the cluster's control plane",
        )
    else:
        yield ok(f"The API server is Kubernetes {cluster.version}.")
    ahead = cluster.api.ahead_seconds
    if abs(ahead) > _CLOCK_SECONDS:
        yield info(
            f"The clock of this machine is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the API "
            "server's, which all ages here are based on.",
            "sudo timedatectl set-ntp true",
        )


def minor(version: str) -> tuple[int, int] | None:
    """Major and minor number of a version such as "v1.33.5-gke.1"; None for anything else."""
    result = re.match(r"v?(\d+)\.(\d+)", version)
    return (int(result[1]), int(result[2])) if result else None


def nodes(cluster: Cluster) -> Iterator[Finding]:
    """Return whether our images run on the Nodes, and whether their kubelets are new enough."""
    result = {name(node): node for node in sorted(cluster.list(NODES), key=name)}
    linux = {node: node_info(each) for node, each in result.items() if is_linux(each)}
    if not linux:
        message = f"None of {count(len(result), 'node')} runs Linux, and Headroom runs nowhere else."
        yield error(message, "add a Linux node to the cluster")
        return
    other_systems = [node for node in result if node not in linux]
    message = "{count} without Linux are left alone: {names}."
    yield from about(Severity.INFO, other_systems, message, docs="compatibility.md")
    yield from about(
        Severity.WARNING,
        [node for node, machine in linux.items() if machine.get("architecture", "amd64") not in _ARCHITECTURES],
        "{count} are neither amd64 nor arm64, as our images are: {names}.",
        "build the images for that architecture, or leave these nodes out by agent.nodeSelector",
    )
    yield from _kubelets(linux, minor(cluster.version))
    versions = Counter(machine.get("kubeletVersion", "unknown") for machine in linux.values())
    texts = ", ".join(f"{number} with kubelet {version}" for version, number in sorted(versions.items()))
    yield ok(f"{count(len(linux), 'Linux node')}: {texts}.")


def _kubelets(linux: Mapping[str, Mapping[str, str]], server: tuple[int, int] | None) -> Iterator[Finding]:
    """Kubelets that are too old for us, or else for their API server."""
    versions = {node: minor(machine.get("kubeletVersion", "")) for node, machine in linux.items()}
    by_node = {node: version for node, version in versions.items() if version is not None}
    if old := [node for node, version in by_node.items() if version < _OLDEST]:
        message = "{count} have a kubelet older than 1.30, which Headroom does not support: {names}."
        yield from about(Severity.WARNING, old, message, "upgrade their kubelets")
    elif server is not None:
        yield from about(
            Severity.WARNING,
            [
                node
                for node, version in by_node.items()
                if version > server or server[1] - version[1] > _OLDEST_KUBELET_SKEW
            ],
            "{count} have a kubelet that is newer than the API server, or more than three minor versions older, which "
            "Kubernetes does not support: {names}.",
            "upgrade the control plane first, then the kubelets",
        )


def pod_security(cluster: Cluster) -> Iterator[Finding]:
    """Return whether the labels of Headroom's namespace let the agent's pods in."""
    place = cluster.namespace
    namespace = cluster.get(NAMESPACES, place)
    if namespace is None and cluster.preflight:
        yield ok(f"There is no namespace {place} yet: helm install --create-namespace makes it.")
        return
    if namespace is None:
        yield installed_elsewhere(cluster, f"There is no namespace {place}.")
        return
    level = labels(namespace).get(_ENFORCE, "")
    admit = f"kubectl label namespace {place} {_ENFORCE}=privileged --overwrite"
    if level in {"baseline", "restricted"}:
        yield error(
            f"Namespace {place} enforces pod security level {level}, which refuses the agent's pods: they read /proc "
            "and /sys/fs/cgroup of their node.",
            admit,
        )
    elif level == "privileged":
        yield ok(f"Namespace {place} admits the agent's pods: pod security level {level}.")
    elif level:
        yield warning(f"Namespace {place} has label {_ENFORCE}={level}, which is no level.", admit)
    else:
        yield ok(f"Namespace {place} sets no pod security level of its own.")
    if namespace["metadata"].get("deletionTimestamp"):
        wait = f"kubectl wait --for=delete namespace/{place} --timeout=10m"
        yield error(f"Namespace {place} is being deleted, with everything in it.", wait, docs="")


def priority_classes(cluster: Cluster) -> Iterator[Finding]:
    """Each band has its class, and each class the value of its band; before an install none need be there."""
    result = {name(cls_): cls_ for cls_ in cluster.list(PRIORITY_CLASSES)}
    # A manager that leads already creates nothing.
    restart = f"kubectl -n {cluster.namespace} rollout restart deployment {MANAGER}"
    create = f"{upgrade(cluster, 'priorityClasses.create=true')} && {restart}"
    wrong = list(_wrong_classes(result, "" if cluster.preflight else f" && {create}"))
    if not cluster.preflight:
        absent = [str(band) for band in VALUES if band not in result]
        message = "There is no PriorityClass {names}; pods that name a missing class are refused."
        wrong = [*about(Severity.WARNING, absent, message, create), *wrong]
    yield from wrong
    if wrong:
        return
    if cluster.preflight:
        yield ok("PriorityClasses do not conflict with the manager's.")
    else:
        yield ok(f"PriorityClasses {named([str(band) for band in VALUES])} have the values of their bands.")


def _wrong_classes(found: Mapping[str, Json], create: str) -> Iterator[Finding]:
    """Classes of another band's value or that preempt, and a default that puts every pod into a band.

    Args:
        found: the classes by their names.
        create: the command that recreates a deleted class, to follow that command.
    """
    for band, (low, high) in VALUES.items():
        value = int(found[band].get("value") or 0) if band in found else None
        if value is not None and band_of_value(value) != band:
            yield error(
                f"PriorityClass {band} has value {value}, which is not of its band ({low} to {high}), so that its pods "
                "count as others. The value of a class cannot be changed, so it must be recreated.",
                f"kubectl delete priorityclass {band}{create}",
            )
    lower = [str(band) for band in VALUES if band != PriorityBand.PROD and band in found]
    preempting = [band for band in lower if found[band].get("preemptionPolicy") != "Never"]
    yield from about(
        Severity.WARNING,
        preempting,
        "Pods of PriorityClass {names} preempt others, also those without a class, and any user who may create "
        "pods may name a class. preemptionPolicy cannot be changed, so recreate the class; running pods keep what "
        "they have.",
        f"kubectl delete priorityclass {' '.join(preempting)}{create}",
        "security.md",
    )
    for called, each in found.items():
        default_band = band_of_value(int(each.get("value") or 0))
        if each.get("globalDefault") and default_band:
            yield info(f"Pods without a class get PriorityClass {called}, so all of them count to {default_band}.")
