"""Two kwok nodes whose load is replayed from real traces, each measured by a real agent that reads its host tree."""

import sys
from pathlib import Path

from tools.devcluster import Cluster, NodeTemplate

HOT, COOL = "hot-0", "cool-1"
LOADS = {"hot": "88%", "cool": "15%"}
"""What each node uses at least, of its capacity; a recorded PlanetLab host's load comes on top."""
ONLY_WHO_TOLERATES = ({"key": "headroom.dev/replayed", "value": "true", "effect": "NoSchedule"},)


def start_replayed_nodes(cluster: Cluster) -> None:
    """Make the nodes, replay their machines, and start their agents; all of it ends with the cluster.

    Without a real node, a third replayed one is the node that the story is about.
    """
    for prefix, load in LOADS.items():
        template = NodeTemplate(
            cpu="4",
            memory="16Gi",
            labels={"headroom.dev/node": "replayed"},
            annotations={"replay.headroom.dev/cpu": load, "replay.headroom.dev/memory": "20%"},
            taints=ONLY_WHO_TOLERATES,
        )
        cluster.kwok.add(1, template, prefix=prefix)
    if not cluster.spec.real_node:
        cluster.kwok.add(1, NodeTemplate(cpu="2", memory="8Gi", labels={"headroom.dev/node": "shown"}), prefix="shown")
    hosts = cluster.start_replay()
    for name in cluster.kwok.names:
        words = [
            *(sys.executable, "-m", "agent", f"--node-name={name}", f"--kubeconfig={cluster.kubeconfig}"),
            *(f"--host-root={hosts / name}", f"--data-dir={cluster.dir / 'agents' / name}", "--listen=127.0.0.1:0"),
            *("--training-interval=5s", "--report-after=5s"),
        ]
        cluster.supervisor.start(f"agent-{name}", words, cwd=Path(__file__).parents[2])
