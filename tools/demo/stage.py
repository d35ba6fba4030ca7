"""Where the demo plays: a cluster with a real node, where one can be, and replayed ones with a real agent each."""

from collections.abc import Iterator
from contextlib import contextmanager

from tools.demo.narrate import Narrator
from tools.demo.replayed import start_replayed_nodes
from tools.demo.story import Story
from tools.devcluster import Cluster

SHARED_MACHINE = {
    "node.koordinator.sh/reservation": '{"resources": {"cpu": "1", "memory": "3Gi"}}',
    "scheduling.koordinator.sh/usage-thresholds": '{"usageThresholds": {"cpu": 0, "memory": 95}}',
}
"""The machine of the real node also runs the control plane, the replay and whatever else is there: the node keeps room
for them, and its CPU threshold is off, so that they do not make it a hot node. The replayed nodes have the defaults."""


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
