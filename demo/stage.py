"""Where the demo plays: a cluster with one real node and two replayed ones, each of those with a real agent."""

from collections.abc import Iterator
from contextlib import contextmanager

from demo.narrate import Narrator
from demo.replayed import start_replayed_nodes
from demo.story import Story
from devcluster import Cluster

RESERVATION = "node.koordinator.sh/reservation"
CONTROL_PLANE_SHARE = '{"resources": {"cpu": "1", "memory": "3Gi"}}'
"""The machine of the real node also runs the control plane and the replay: the node keeps this much for them."""


@contextmanager
def stage(name: str, narrator: Narrator | None = None) -> Iterator[Story]:
    """The story on its own cluster, which is gone when the block ends.

    Args:
        name: the cluster's name.
        narrator: who tells the story; one that prints to stdout if not given.

    Raises:
        DevClusterError: the cluster did not start; the message has the end of the log.
        MissingRequirementError: this machine cannot run a real node; the message says what is missing.
    """
    teller = narrator or Narrator()
    with Cluster(name=name, real_node=True, say=teller.say) as cluster:
        cluster.kubectl("label", "node", cluster.spec.node_name, "headroom.dev/node=real")
        cluster.kubectl("annotate", "node", cluster.spec.node_name, f"{RESERVATION}={CONTROL_PLANE_SHARE}")
        start_replayed_nodes(cluster)
        yield Story(cluster, teller)
