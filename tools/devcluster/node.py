"""A real node: kubelet, containerd and pods in namespaces of their own, of which nothing stays behind.

Needs root on Linux. Everything it makes is below one folder in the cache (`nodes/<id>`), one cgroup per hierarchy and
the namespaces of one process; `stop`, the death of this process, and `sweep` each remove all of it.
"""

import fcntl
import json
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tools.devcluster import cgroups, containerd, network, packages, sandbox, seeds
from tools.devcluster.binaries import Binaries
from tools.devcluster.certs import Pki
from tools.devcluster.commands import DevClusterError, MissingRequirementError
from tools.devcluster.node_init import View
from tools.devcluster.oci import Layout
from tools.devcluster.places import cache_directory
from tools.devcluster.process import Process, Supervisor

NEEDED_PACKAGES = [
    package for package in packages.PACKAGES if package.name not in ("debootstrap", "buildah", "ca-certificates")
]
"""Requirements of the node itself; the rest is for building images."""

Say = Callable[[str], None]


def nodes_directory() -> Path:
    """The folder with one folder per real node. On the file system of the image cache, whose files it shares."""
    return cache_directory() / "nodes"


def require_root() -> None:
    """Check that this machine and user can run a real node; the error says what to do."""
    refusal = packages.real_node_refusal()
    if refusal:
        raise MissingRequirementError(refusal)
    missing = [package.name for package in packages.missing(NEEDED_PACKAGES)]
    if missing:
        raise MissingRequirementError(
            f"the real node needs the packages {', '.join(missing)}: `python -m tools.devcluster packages` installs it"
        )


@dataclass(frozen=True)
class NodeSpec:
    """The parts of a real node."""

    cluster: str  # the cluster's name
    name: str  # the Node object's name
    directory: Path  # the cluster's state folder
    logs: Path  # folder for the logs of its programs
    server: str  # the API server's URL inside the cluster's network
    images: Sequence[Layout] = ()  # images that it starts with; the pause image must be among them


class RealNode:
    """A real node of a running control plane."""

    def __init__(self, spec: NodeSpec, binaries: Binaries, say: Say = print) -> None:
        self.spec = spec
        self.id = f"hr-{spec.cluster}-{secrets.token_hex(3)}"
        self.directory = nodes_directory() / self.id
        self.static_pods = self.directory / "static-pods"  # manifests put into this folder run as static pods
        self._binaries = binaries
        self._say = say
        self._lock: IO[bytes] | None = None
        self._node: Supervisor | None = None
        self._kubelet: Process | None = None

    def start(self, supervisor: Supervisor, pki: Pki, net: network.Network) -> None:
        """Start containerd and the kubelet; the Node object becomes Ready some seconds later.

        The cluster's supervisor cleans up after the node, also when this process is killed.
        """
        require_root()
        sweep(self._say)
        self._claim(supervisor)
        seeds.plant(self.directory / "containerd", self.spec.images, self._binaries, self._say)
        self._node = self._open_sandbox(net)
        self._node.start("node-proc", [sys.executable, "-S", "-m", "tools.devcluster.node_proc"])
        containerd.start(self._node, self._binaries, self._write_containerd_config())
        self._write_kubelet_config(pki)
        self.start_kubelet()

    def _claim(self, supervisor: Supervisor) -> None:
        """Make the node's folder and cgroups, and arrange for their removal."""
        partial = self.directory.with_name(f".{self.id}")
        partial.mkdir(parents=True)
        self._lock = (partial / "lock").open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        partial.rename(self.directory)  # locked when it appears, so no sweep takes it
        supervisor.remove_at_exit(self.directory)
        supervisor.at_exit([sys.executable, "-I", "-S", cgroups.__file__, self.id])
        try:
            cgroups.create(self.id, cgroups.mounted())
        except OSError as error:
            raise DevClusterError(
                f"cannot make the node's cgroup {error.filename}: {error.strerror}. The real node needs /sys/fs/cgroup "
                "to be writable (a container has to be privileged)"
            ) from error

    def _open_sandbox(self, net: network.Network) -> Supervisor:
        pod_logs, state = self.spec.logs / "pods", self.directory / "kubelet"
        for folder in (pod_logs, state):
            folder.mkdir(parents=True)
        folders = (str(self.spec.directory), str(self.spec.logs), *sandbox.program_folders(self._binaries))
        binds = {"/var/log/pods": str(pod_logs), "/var/lib/kubelet": str(state)}
        return sandbox.open_sandbox(View(self.id, folders, binds), self.spec.logs, net)

    def _write_containerd_config(self) -> Path:
        cni = self.directory / "cni"
        cni.mkdir()
        (cni / "10-headroom.conflist").write_text(network.cni_config(Path("/var/lib/cni")))
        file = self.directory / "containerd.toml"
        file.write_text(containerd.config(self.directory / "containerd", network.cni_folder(), cni))
        return file

    def _write_kubelet_config(self, pki: Pki) -> None:
        name = self.spec.name
        client = pki.client(f"kubelet-{name}", f"system:node:{name}", ["system:nodes"])
        kubeconfig = pki.kubeconfig(f"kubelet-{name}", client, self.spec.server)
        serving = pki.server(f"kubelet-serving-{name}", [network.NODE_ADDRESS], [name])
        self.static_pods.mkdir(parents=True, exist_ok=True)
        document = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": network.NODE_ADDRESS,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True, "cacheTTL": "10s"},
                "x509": {"clientCAFile": str(pki.ca)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(serving.cert),
            "tlsPrivateKeyFile": str(serving.key),
            "containerRuntimeEndpoint": f"unix://{containerd.SOCKET}",
            "staticPodPath": str(self.static_pods),
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": True,
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,  # lowering it needs CAP_SYS_RESOURCE
            "makeIPTablesUtilChains": False,
            # There is no DNS: a query fails at once, and pods do not get the machine's resolvers.
            "clusterDNS": [network.CLUSTER_DNS],
            "clusterDomain": "cluster.local",
            "resolvConf": "",  # nothing outside can be reached, so no name server is named
            "enforceNodeAllocatable": ["pods"],
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "imageMaximumGCAge": "0s",
            "fileCheckFrequency": "1s",
            "syncFrequency": "10s",
            "nodeStatusUpdateFrequency": "10s",
            "nodeStatusReportFrequency": "10s",
            "runtimeRequestTimeout": "2m",
            "logging": {"format": "text"},
        }
        (self.directory / "kubelet.json").write_text(json.dumps(document, indent=2))
        flags = {
            "config": self.directory / "kubelet.json",
            "kubeconfig": kubeconfig,
            "hostname-override": name,
            "node-ip": network.NODE_ADDRESS,
            "root-dir": "/var/lib/kubelet",
            "cert-dir": "/var/lib/kubelet/pki",
            "v": 2,
        }
        self._kubelet_flags = [f"--{flag}={value}" for flag, value in flags.items()]

    @property
    def sandbox(self) -> Supervisor:
        """The supervisor inside the node."""
        if self._node is None:
            raise DevClusterError(f"the node {self.spec.name} does not run")
        return self._node

    def start_kubelet(self) -> None:
        """Start the kubelet, which registers the Node object, also again after it was stopped; its log goes on."""
        self._kubelet = self.sandbox.start("kubelet", [self._binaries.path("kubelet"), *self._kubelet_flags])

    def stop_kubelet(self) -> None:
        """End the kubelet alone, as for an upgrade; pods run on."""
        if self._kubelet is not None:
            self._kubelet.stop()

    def load_image(self, image: Layout) -> None:
        """Give the running node one more image, or a new version of one."""
        containerd.import_image(self.sandbox, self._binaries, image)

    def command(self, *argv: str | Path) -> list[str]:
        """A command line that runs a program inside the node, for instance a shell to look around."""
        return sandbox.enter_command(self.sandbox, *argv)

    def stop(self) -> None:
        """End every process of the node, and remove its mounts, cgroups and folder; may be called twice."""
        if self._node is not None:
            self._node.close()
            self._node = None
        left = cgroups.remove(self.id, cgroups.mounted())
        shutil.rmtree(self.directory, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if left:
            raise DevClusterError(f"processes still live in {left[0]}, so it was not removed")


def abandoned() -> Iterator[Path]:
    """Folders of nodes without a process; each is locked while it is inspected."""
    for directory in sorted(nodes_directory().glob("hr-*")):
        try:
            lock = (directory / "lock").open("rb")
        except FileNotFoundError:  # it is being removed
            continue
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield directory


def sweep(say: Say = print) -> None:
    """Clean up after nodes that were killed with all their processes, for instance by a reboot."""
    for directory in abandoned():
        say(f"cleaning up after the node {directory.name}")
        cgroups.remove(directory.name, cgroups.mounted())
        shutil.rmtree(directory, ignore_errors=True)
