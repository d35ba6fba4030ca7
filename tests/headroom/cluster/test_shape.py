"""What is read of Nodes has the types that it should have."""

from collections import UserDict
from collections.abc import Callable, ItemsView
from typing import Any

import pytest

from agent.sources.node import ApiNode
from crds.codec import CodecError
from headroom import kube
from headroom.cluster.shape import check_node
from scheduler_plugins.quota.objects import QuotaNode
from tests.agent.test_sources import NO_SERVER


def test_absent_fields_are_fine() -> None:
    """What is absent, null, or read by nobody is not judged."""
    check_node({})
    check_node({"metadata": None, "spec": {"podCIDR": 5}})


def test_wrong_node_is_named() -> None:
    """A Node's amounts must be a map; what is in it is for the reader to judge."""
    check_node({"status": {"capacity": {"cpu": []}}})
    with pytest.raises(CodecError, match=r"status\.allocatable: must be an object"):
        check_node({"status": {"allocatable": [1]}})


class Counted(UserDict[str, Any]):
    passes = 0

    def items(self) -> ItemsView[str, Any]:
        self.passes += 1
        return super().items()


@pytest.mark.parametrize(
    "take",
    [
        QuotaNode.from_json,
        lambda node: ApiNode(NO_SERVER, "worker").apply(kube.Changed("MODIFIED", node)),
    ],
)  # fmt: skip
def test_each_object_is_checked_in_one_pass(take: Callable[[Any], object]) -> None:
    """A change of an object is gone through once, however many ask for it."""
    metadata = Counted(name="worker", labels={"a": "b"})
    changed = Counted(metadata=metadata, spec={}, status={"capacity": {"cpu": "8"}})
    take(changed)
    assert (changed.passes, metadata.passes) == (1, 1)
