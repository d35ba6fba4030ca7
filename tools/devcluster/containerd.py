"""containerd on the real node: its configuration, its start, and the images that it gets."""

import os
import shutil
import socket
import subprocess
from collections.abc import Container
from pathlib import Path

from tools.devcluster.binaries import Binaries
from tools.devcluster.commands import DevClusterError, MissingRequirementError, run
from tools.devcluster.oci import Layout
from tools.devcluster.process import Process, Supervisor, wait_until
from tools.devcluster.sandbox import enter_command, init_pid

SOCKET = "/run/containerd/containerd.sock"  # inside the node, where `/run` is its own
PAUSE_IMAGE = "localhost/pause:dev"
NAMESPACE = "k8s.io"  # containerd's name for what belongs to the kubelet
START_SECONDS = 120.0
IMPORT_SECONDS = 300.0

CONFIG = """\
version = 3
root = "{root}"
state = "/run/containerd"
# No plugin that writes outside the node's own folders, and none that would talk to a hypervisor or a tracer.
disabled_plugins = [
  "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs",
  "io.containerd.differ.v1.erofs",
]

[grpc]
  address = "{socket}"

[plugins.'io.containerd.cri.v1.images']
  snapshotter = "{snapshotter}"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{pause}"

[plugins.'io.containerd.cri.v1.runtime']
  # Without CAP_SYS_RESOURCE no process may lower an oom_score_adj, and every sandbox would fail.
  restrict_oom_score_adj = true
  disable_apparmor = true  # a loaded profile would outlive the node
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = "{runc}"
        SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{cni_bin}"]
    conf_dir = "{cni_conf}"
"""


def runc() -> str:
    """The runtime's program."""
    result = shutil.which("runc", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if result is None:
        raise MissingRequirementError("runc is not installed: install it (Debian, Ubuntu: apt-get install runc)")
    return result


def lies_on_overlay(directory: Path) -> bool:
    """Return whether a folder is on an overlay, as inside a container: another one cannot be stacked on it."""
    return run(["stat", "--file-system", "--format", "%T", directory]).strip() == "overlayfs"


def config(root: Path, cni_bin: Path, cni_conf: Path) -> str:
    """The configuration file (version 3, containerd 2.x)."""
    return CONFIG.format(
        root=root,
        socket=SOCKET,
        snapshotter="native" if lies_on_overlay(root) else "overlayfs",
        pause=PAUSE_IMAGE,
        runc=runc(),
        cni_bin=cni_bin,
        cni_conf=cni_conf,
    )


def start(node: Supervisor, binaries: Binaries, config_file: Path) -> Process:
    """Start containerd in the node and wait until it answers."""
    program = binaries.path("containerd")
    path = f"{program.parent}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"  # it looks for its shim on PATH
    process = node.start("containerd", [program, "--config", config_file], env={"PATH": path, "HOME": "/root"})
    wait_until(lambda: _answers(node), "containerd's answer", START_SECONDS, processes=[process])
    return process


def _answers(node: Supervisor) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"/proc/{init_pid(node)}/root{SOCKET}")
    return True


def import_image(node: Supervisor, binaries: Binaries, image: Layout) -> None:
    """Import an image into containerd; existing layers are not sent or unpacked again."""
    present = set(run(enter_command(node, *_ctr(binaries), "content", "list", "--quiet")).split())
    try:
        _import_archive(node, binaries, image, present)
    except DevClusterError:
        # It may have dropped a layer meanwhile, one that no image used. If that was not it, this fails in the same way.
        _import_archive(node, binaries, image, ())


def _ctr(binaries: Binaries) -> list[str | Path]:
    return [binaries.path("ctr"), "--address", SOCKET, "--namespace", NAMESPACE]


def _import_archive(node: Supervisor, binaries: Binaries, image: Layout, left_out: Container[str]) -> None:
    command = enter_command(node, *_ctr(binaries), "images", "import", "--local", "-")
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if process.stdin is None:
        raise AssertionError("stdin is a pipe")
    broken = ""
    try:
        image.pack(process.stdin, left_out)
    except BrokenPipeError:
        broken = "it closed the pipe"  # ctr's output has the reason
    try:
        _, stderr = process.communicate(timeout=IMPORT_SECONDS)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.wait()
        raise DevClusterError(f"importing {image.name} took longer than {IMPORT_SECONDS:.0f} s") from error
    if process.returncode != 0 or broken:
        raise DevClusterError(f"containerd does not take {image.name}: {stderr.decode().strip() or broken}")
