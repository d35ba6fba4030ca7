"""The network of one cluster: a namespace of its own with a bridge that leads nowhere.

Everything of the cluster lives in it (API server, kubelet, pods), so all clusters use the same addresses, and nothing
can leave the machine: there is no uplink, no default route, and forwarding stays off. It lasts as long as its holder
process, and nothing of it can be seen from outside.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from tools.devcluster.commands import MissingRequirementError, run
from tools.devcluster.process import Process, Supervisor, wait_until

BRIDGE = "hr0"
NODE_ADDRESS = "10.244.0.1"  # the node's own address, on the bridge: kubelet, forwarder and pods meet there
POD_SUBNET = "10.244.0.0/24"
FIRST_POD_ADDRESS = "10.244.0.10"
SERVICE_SUBNET = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"
"""ClusterIP of the API server, which is bound to it, so in-pod clients need no kube-proxy. Others are unreachable."""
CLUSTER_DNS = "10.96.0.10"  # the DNS server of pods: nothing listens there
CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"), Path("/usr/libexec/cni"))
CNI_PLUGINS = ("bridge", "host-local", "loopback")
START_SECONDS = 60.0

BRIDGE_MAC = "02:68:65:61:64:72"
"""Set, because a bridge without an address of its own takes the lowest of its ports': each new pod could change it, and
the other pods would lose the API server until they ask again who has its address."""
LINKS = f"""
link set lo up
link add {BRIDGE} address {BRIDGE_MAC} type bridge stp_state 0 forward_delay 0
address add {NODE_ADDRESS}/24 dev {BRIDGE}
address add {SERVICE_ADDRESS}/32 dev {BRIDGE}
link set {BRIDGE} up
route add unreachable {SERVICE_SUBNET}
"""


@dataclass(frozen=True)
class Network:
    """A cluster's network namespace."""

    holder: Process

    @property
    def namespace(self) -> Path:
        """The namespace's file: give it to `Supervisor.start(namespaces=[…])` to run a program in this network."""
        return Path(f"/proc/{self.holder.pid}/ns/net")

    def command(self, *argv: str | Path) -> list[str]:
        """A command line that runs a program in this network."""
        return ["nsenter", f"--net={self.namespace}", "--", *(str(word) for word in argv)]


def create(supervisor: Supervisor) -> Network:
    """Make the network of a cluster; it ends with the supervisor."""
    if os.geteuid() != 0:
        raise MissingRequirementError("the real node needs root on Linux (network namespace): run it with sudo")
    network = Network(supervisor.start("network", ["unshare", "--net", "sleep", "infinity"]))
    ours = Path("/proc/self/ns/net").stat().st_ino
    wait_until(
        lambda: network.namespace.stat().st_ino != ours,
        "the network namespace",
        START_SECONDS,
        processes=[network.holder],
    )
    run(network.command("ip", "-batch", "-"), stdin=LINKS)
    return network


def cni_folder() -> Path:
    """The folder with the CNI plugins of the distribution."""
    for folder in CNI_FOLDERS:
        if all((folder / plugin).exists() for plugin in CNI_PLUGINS):
            return folder
    raise MissingRequirementError(
        f"no CNI plugins ({', '.join(CNI_PLUGINS)}) in {', '.join(map(str, CNI_FOLDERS))}: "
        "install them (Debian, Ubuntu: apt-get install containernetworking-plugins)"
    )


def cni_config(directory: Path) -> str:
    """The CNI network of the node's pods: addresses on the bridge, a route to the API server and no other."""
    ipam = {
        "type": "host-local",
        "dataDir": str(directory),
        "ranges": [[{"subnet": POD_SUBNET, "rangeStart": FIRST_POD_ADDRESS, "gateway": NODE_ADDRESS}]],
        "routes": [{"dst": f"{SERVICE_ADDRESS}/32"}],  # so that a pod learns at once that nothing else can be reached
    }
    bridge = {"type": "bridge", "bridge": BRIDGE, "isGateway": False, "ipMasq": False, "ipam": ipam}
    return json.dumps({"cniVersion": "1.0.0", "name": "headroom", "plugins": [bridge, {"type": "loopback"}]}, indent=2)
