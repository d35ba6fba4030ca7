"""Run one command in a container of an image, as strictly as the chart does, with runc and without a cluster."""

import json
import platform
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from tools.devcluster.commands import run
from tools.devcluster.containerd import runc
from tools.devcluster.oci import Json, Layout

SECONDS = 120.0
NAMESPACES = ("pid", "network", "ipc", "uts", "mount")


def image_config(image: Layout) -> Json:
    """The config of an image: architecture and command."""
    result: Json = json.loads(image.blob(image.blobs()[1]).read_text())
    return result


def unpack(image: Layout, directory: Path) -> None:
    """Write an image's files below a folder that exists; the layers must remove nothing of each other."""
    for digest in image.blobs()[2:]:
        run(["tar", "--extract", "--numeric-owner", "--file", image.blob(digest), "--directory", directory])


def execute(image: Layout, bundle: Path, *argv: str, tmpfs: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a command on a read-only root, as the image's user, without capabilities, privileges to gain or a network."""
    said = image_config(image)["config"]
    (bundle / "config.json").write_text(json.dumps(_config(said, argv or said["Entrypoint"], tmpfs)))
    name = f"headroom-{uuid.uuid4().hex}"
    state = bundle / "state"
    program: list[str | Path] = [runc(), "--root", state]
    try:
        return subprocess.run(
            [*program, "run", "--bundle", bundle, name],
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        run([*program, "delete", "--force", name])
        raise


def _config(said: Json, argv: Sequence[str], tmpfs: Sequence[str]) -> Json:
    """The runtime's configuration of a bundle (OCI runtime specification 1.0)."""
    uid, _, gid = said["User"].partition(":")
    nothing: dict[str, list[str]] = {
        entry: [] for entry in ("bounding", "effective", "inheritable", "permitted", "ambient")
    }
    flags = ["nosuid", "nodev", "mode=1777"]
    return {
        "ociVersion": "1.0.2",
        "hostname": platform.node(),
        "root": {"path": "root", "readonly": True},
        "process": {
            "user": {"uid": int(uid), "gid": int(gid)},
            "args": [*argv],
            "env": said["Env"],
            "cwd": "/",
            "capabilities": nothing,
            "noNewPrivileges": True,
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            *({"destination": path, "type": "tmpfs", "source": "tmpfs", "options": flags} for path in tmpfs),
        ],
        "linux": {"namespaces": [{"type": namespace} for namespace in NAMESPACES]},
    }
