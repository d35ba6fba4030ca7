"""What is read of pods and Nodes has the types that it should have."""

from typing import Any

import pytest

from crds.codec import CodecError
from crds.shape import check_node, check_pod


@pytest.mark.parametrize("pod", [{}, {"metadata": None, "spec": {"containers": None}}, {"spec": {"volumes": 5}}])
def test_absent_fields_are_fine(pod: dict[str, Any]) -> None:
    """What is absent, null, or read by nobody is not judged."""
    check_pod(pod)
    check_node(pod)


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (None, "the object: must be an object, got None"),
        ({"metadata": []}, "metadata: must be an object"),
        ({"metadata": {"labels": {"a": 1}}}, "metadata.labels.a: must be a string, got 1"),
        ({"spec": {"priority": "high"}}, "spec.priority: must be an integer"),
        ({"spec": {"containers": [None]}}, "spec.containers[0]: must be an object"),
        ({"spec": {"initContainers": [{"resources": {"limits": {"cpu": "x"}}}]}}, "[0].resources.limits.cpu"),
        ({"status": {"phase": 1}}, "status.phase: must be a string"),
    ],
)  # fmt: skip
def test_wrong_type_is_named(pod: object, said: str) -> None:
    """A value of another type is refused by the path of its field."""
    with pytest.raises(CodecError) as refusal:
        check_pod(pod)
    assert said in str(refusal.value)


def test_wrong_node_is_named() -> None:
    """A Node's amounts must be a map; what is in it is for the reader to judge."""
    check_node({"status": {"capacity": {"cpu": []}}})
    with pytest.raises(CodecError, match=r"status\.allocatable: must be an object"):
        check_node({"status": {"allocatable": [1]}})
