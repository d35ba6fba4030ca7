"""Pods with a known load, one of each kind, as manifests for a real node."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

NAMESPACE: Final = "loads"
PROGRAM: Final = Path(__file__).with_name("load.py")
IMAGE: Final = "localhost/headroom-agent:dev"


@dataclass(frozen=True, slots=True)
class Load:
    name: str
    milli_cores: int  # its CPU usage, in a closed loop on its own CPU clock
    mebibytes: int  # its memory, all of it written to
    requests: dict[str, str]
    limits: dict[str, str]
    file_mebibytes: int = 0  # size of a file on disk that it reads again and again
    shared_mebibytes: int = 0  # size of a file in a tmpfs (emptyDir of medium Memory)

    @property
    def anonymous_alone(self) -> bool:
        return not (self.file_mebibytes or self.shared_mebibytes)

    def manifest(self) -> dict[str, Any]:
        """The pod. Its command holds the program, so that a static pod needs nothing else."""
        words = (self.milli_cores / 1000, self.mebibytes, self.file_mebibytes, self.shared_mebibytes)
        container: dict[str, Any] = {
            "name": "load",
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "command": ["python3", "-S", "-c", PROGRAM.read_text(), *map(str, words)],
            "resources": {"requests": self.requests, "limits": self.limits},
            "securityContext": {"runAsUser": 65532},
        }
        volumes: dict[str, Any] = {"load": {"emptyDir": {}}}
        if self.shared_mebibytes:
            volumes["shared"] = {"emptyDir": {"medium": "Memory"}}
        container["volumeMounts"] = [{"name": name, "mountPath": f"/{name}"} for name in volumes]
        spec: dict[str, Any] = {
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
            "volumes": [{"name": name, **volume} for name, volume in volumes.items()],
        }
        metadata = {"name": self.name, "namespace": NAMESPACE}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _amounts(cpu: str, memory: str) -> dict[str, str]:
    return {"cpu": cpu, "memory": memory}


KNOWN: Final = Load("guaranteed", 400, 200, _amounts("900m", "512Mi"), _amounts("900m", "512Mi"))
"""The load that the product's promise names: 400m CPU, 200 MiB."""
STATIC: Final = Load("static", 40, 48, _amounts("50m", "64Mi"), {})  # runs from a file of the kubelet's
READER: Final = Load("reader", 50, 24, _amounts("50m", "64Mi"), {}, file_mebibytes=160)
"""Its memory is mostly page cache."""
TMPFS: Final = Load("tmpfs", 40, 24, _amounts("50m", "64Mi"), {}, shared_mebibytes=80)
"""Its memory is mostly files that lie in memory."""
LOADS: Final = (
    KNOWN,
    Load("burstable", 60, 64, _amounts("50m", "64Mi"), {}),
    Load("best-effort", 30, 32, {}, {}),
    READER,
    TMPFS,
)
ALL: Final = (*LOADS, STATIC)


def manifests() -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [load.manifest() for load in LOADS]})


def static_manifest() -> str:
    return json.dumps(STATIC.manifest())
