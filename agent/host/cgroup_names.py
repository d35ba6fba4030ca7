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
_POD_CGROUPFS: Final = re.compile(r"pod([^/\s\ud800-\udfff]+)")  # what is not UTF-8 is no uid
_POD_SYSTEMD: Final = re.compile(r"(?:.+-)?kubepods(?:-burstable|-besteffort)?-pod([^-/\s\ud800-\udfff]+)\.slice")
KUBEPODS: Final = re.compile(r"kubepods|(?:.+-)?kubepods\.slice")
"""The folder that holds all pods: alone, or below a parent that the systemd driver puts into its name."""


def qos_dir(driver: Driver, qos: str, top: str = "") -> str:
    """Path of a QoS class's cgroup below the root of a hierarchy. Guaranteed pods sit in the top folder itself."""
    top = top or ("kubepods.slice" if driver == SYSTEMD else "kubepods")
    if _QOS[qos] == GUARANTEED:
        return top
    lower = qos.lower()
    return f"{top}/{_stem(top)}-{lower}.slice" if driver == SYSTEMD else f"{top}/{lower}"


def pod_uid(name: str, driver: Driver) -> str | None:
    """The uid in the name of a pod's cgroup (the config hash for a static pod); None for other names."""
    if driver == CGROUPFS:
        found = _POD_CGROUPFS.fullmatch(name)
        return found[1] if found else None
    found = _POD_SYSTEMD.fullmatch(name)
    return found[1].replace("_", "-") if found else None


def driver_of(names: Iterable[str]) -> Driver | None:
    """The driver that named one of these folders, systemd first; None when none of them holds all pods."""
    found = [name for name in names if KUBEPODS.fullmatch(name)]
    if not found:
        return None
    return "systemd" if any(name.endswith(".slice") for name in found) else "cgroupfs"


def _stem(path: str) -> str:
    return path.rsplit("/", 1)[-1].removesuffix(".slice")
