"""Where the demo plays: a cluster with a real node, where one can be, and replayed ones with a real agent each."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tools.demo.story import ROOT, Narrator, Story
from tools.devcluster import Cluster, NodeTemplate

HOT, COOL = "hot-0", "cool-1"
LOADS = {"hot": "88%", "cool": "15%"}
"""The minimum usage of each node, as a share of its capacity; a recorded PlanetLab host's load is added."""
ONLY_WHO_TOLERATES = ({"key": "headroom.dev/replayed", "value": "true", "effect": "NoSchedule"},)
SHARED_MACHINE = {
    "node.koordinator.sh/reservation": '{"resources": {"cpu": "1", "memory": "3Gi"}}',
    "scheduling.koordinator.sh/usage-thresholds": '{"usageThresholds": {"cpu": 0, "memory": 95}}',
}
"""The machine of the real node also runs the control plane and the replay: the node reserves for them. Its CPU
threshold is off: on two CPUs the start of its own pods may exceed it. The replayed nodes have the defaults."""


@contextmanager
def stage(name: str, narrator: Narrator | None = None, *, real_node: bool = True) -> Iterator[Story]:
    """The story on its own cluster, which is gone when the block ends."""
    teller = narrator or Narrator()
    with Cluster(name=name, real_node=real_node, say=teller.say) as cluster:
        if real_node:
            notes = [f"{key}={value}" for key, value in SHARED_MACHINE.items()]
            cluster.kubectl("label", "node", cluster.spec.node_name, "headroom.dev/node=shown")
            cluster.kubectl("annotate", "node", cluster.spec.node_name, *notes)
        start_replayed_nodes(cluster)
        yield Story(cluster, teller)


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
        cluster.supervisor.start(f"agent-{name}", words, cwd=ROOT)
