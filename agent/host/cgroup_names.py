"""Names of the cgroups of pods and containers, as kubelet forms them under its two cgroup drivers. Pure."""

import re
from collections.abc import Iterable
from typing import Final, Literal

Driver = Literal["systemd", "cgroupfs"]
SYSTEMD: Final = "systemd"
CGROUPFS: Final = "cgroupfs"

GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"

_QOS: Final = {"": GUARANTEED, GUARANTEED: GUARANTEED, BURSTABLE: BURSTABLE, BEST_EFFORT: BEST_EFFORT}
_RUNTIMES: Final = {"docker": "docker", "containerd": "cri-containerd", "cri-o": "crio", "pouch": "pouch"}
_SHOWN: Final = 100  # of an id in a message; ids have 64 digits
_ID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")
_POD_CGROUPFS: Final = re.compile(r"pod([^/\s\ud800-\udfff]+)")  # a uid is valid UTF-8
_POD_SYSTEMD: Final = re.compile(
    r"(?:.+-)?kubepods(?:-system)?(?:-burstable|-besteffort)?-pod([^-/\s\ud800-\udfff]+)\.slice"
)
_SCOPE: Final = re.compile(
    r"(?:docker|cri-containerd|crio|pouch)-(?!conmon-)([0-9a-zA-Z-]+)\.scope|crio-(?!conmon-)([0-9a-zA-Z-]+)"
)
_BARE: Final = re.compile(r"(?:crio-)?(?!(?:crio-)?conmon-)([0-9a-zA-Z-]+)")
KUBEPODS: Final = re.compile(r"kubepods|(?:.+-)?kubepods\.slice")
"""The folder that holds all pods: alone, or below a parent that the systemd driver puts into its name."""


def qos_dir(driver: Driver, qos: str, top: str = "") -> str:
    """Path of a QoS class's cgroup below the root of a hierarchy. Guaranteed pods sit in the top folder itself."""
    top = top or ("kubepods.slice" if driver == SYSTEMD else "kubepods")
    if _QOS[qos] == GUARANTEED:
        return top
    lower = qos.lower()
    return f"{top}/{_stem(top)}-{lower}.slice" if driver == SYSTEMD else f"{top}/{lower}"


def system_dir(driver: Driver, top: str) -> str:
    """Path of the partition for system pods (Kubernetes 1.37, KEP 5894) in the folder of all pods."""
    return f"{top}/{_stem(top)}-system.slice" if driver == SYSTEMD else f"{top}/system"


def pod_dir(driver: Driver, qos: str, uid: str, top: str = "") -> str:
    """Path of a pod's cgroup below the root of a hierarchy; arguments as for `qos_dir`, and the pod's uid."""
    parent = qos_dir(driver, qos, top)
    if driver == SYSTEMD:
        return f"{parent}/{_stem(parent)}-pod{uid.replace('-', '_')}.slice"
    return f"{parent}/pod{uid}"


def pod_uid(name: str, driver: Driver) -> str | None:
    """The uid in the name of a pod's cgroup (the config hash for a static pod); None for other names."""
    if driver == CGROUPFS:
        result = _POD_CGROUPFS.fullmatch(name)
        return result[1] if result else None
    result = _POD_SYSTEMD.fullmatch(name)
    return result[1].replace("_", "-") if result else None


def container_name(container_id: str, driver: Driver) -> str:
    """Name of a container's cgroup from its id as in the pod's status (``containerd://…``).

    Raises ValueError: the id has no runtime that we know.
    """
    runtime, separator, identifier = container_id.partition("://")
    if not separator or runtime not in _RUNTIMES or not _ID.fullmatch(identifier):
        runtimes = ", ".join(_RUNTIMES)
        raise ValueError(f"not a container id of a runtime that is known ({runtimes}): {container_id[:_SHOWN]!r}")
    return f"{_RUNTIMES[runtime]}-{identifier}.scope" if driver == SYSTEMD else identifier


def container_id(name: str, driver: Driver) -> str | None:
    """The id in the name of a container's cgroup; None for other names, cri-o's monitor among them."""
    result = (_BARE if driver == CGROUPFS else _SCOPE).fullmatch(name)
    return result[result.lastindex or 1] if result else None


def driver_of(names: Iterable[str]) -> Driver | None:
    """The driver that named one of these folders, systemd first; None when none of them holds all pods."""
    result = [name for name in names if KUBEPODS.fullmatch(name)]
    if not result:
        return None
    return "systemd" if any(name.endswith(".slice") for name in result) else "cgroupfs"


def _stem(path: str) -> str:
    return path.rsplit("/", 1)[-1].removesuffix(".slice")
