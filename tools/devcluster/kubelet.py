"""The kubelet of the real node: its configuration and its start."""

import json
from dataclasses import dataclass
from pathlib import Path

from tools.devcluster.binaries import Binaries
from tools.devcluster.certs import KeyPair
from tools.devcluster.containerd import SOCKET
from tools.devcluster.network import CLUSTER_DNS, NODE_ADDRESS
from tools.devcluster.process import Process, Supervisor


@dataclass(frozen=True)
class KubeletFiles:
    """What the kubelet reads, on the machine (the folders are visible in the node)."""

    kubeconfig: Path  # its login, as `system:node:<name>`
    serving: KeyPair  # its serving certificate, signed by the cluster's authority, for the node's name and address
    client_ca: Path  # the authority whose client certificates it takes
    static_pods: Path  # manifests put here run without the API server
    config: Path  # where its configuration is written


def config(files: KubeletFiles) -> str:
    """The KubeletConfiguration, as JSON."""
    document = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True, "cacheTTL": "10s"},
            "x509": {"clientCAFile": str(files.client_ca)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(files.serving.cert),
        "tlsPrivateKeyFile": str(files.serving.key),
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "staticPodPath": str(files.static_pods),
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": True,
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,  # lowering it needs CAP_SYS_RESOURCE
        "makeIPTablesUtilChains": False,
        # There is no DNS: a pod that asks learns so at once, and does not get the machine's own resolvers.
        "clusterDNS": [CLUSTER_DNS],
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
    return json.dumps(document, indent=2)


def start(node: Supervisor, binaries: Binaries, node_name: str, files: KubeletFiles) -> Process:
    """Write the configuration and start the kubelet in the node; it registers the Node object itself."""
    files.static_pods.mkdir(parents=True, exist_ok=True)
    files.config.write_text(config(files))
    flags = {
        "config": files.config,
        "kubeconfig": files.kubeconfig,
        "hostname-override": node_name,
        "node-ip": NODE_ADDRESS,
        "root-dir": "/var/lib/kubelet",
        "cert-dir": "/var/lib/kubelet/pki",
        "v": 2,
    }
    return node.start("kubelet", [binaries.path("kubelet"), *(f"--{flag}={value}" for flag, value in flags.items())])
