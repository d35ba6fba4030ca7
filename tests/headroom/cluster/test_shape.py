"""What is read of Nodes has the types that it should have."""

import pytest

from crds.codec import CodecError
from headroom.cluster.shape import check_node


def test_absent_fields_are_fine() -> None:
    """What is absent, null, or read by nobody is not judged."""
    check_node({})
    check_node({"metadata": None, "spec": {"podCIDR": 5}})


def test_wrong_node_is_named() -> None:
    """A Node's amounts must be a map; what is in it is for the reader to judge."""
    check_node({"status": {"capacity": {"cpu": []}}})
    with pytest.raises(CodecError, match=r"status\.allocatable: must be an object"):
        check_node({"status": {"allocatable": [1]}})
