"""Strategic merge patches, by the schema of the API server."""

from typing import Any

import pytest

from tests.manager.profiles.made import Json, schema

POD: Json = {
    "metadata": {"labels": {"a": "1"}, "finalizers": ["x", "y"]},
    "spec": {
        "containers": [
            {"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            {"name": "d", "image": "j", "args": ["1", "2"]},
        ],
        "tolerations": [{"key": "t"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "nodeSelector": {"disk": "ssd"},
    },
}


def _container(index: int, **fields: Any) -> Json:  # noqa: ANN401 - JSON
    return {**POD["spec"]["containers"][index], **fields}


@pytest.mark.parametrize(
    ("patch", "part", "result"),
    [
        ({"nodeSelector": {"zone": "a"}}, "nodeSelector", {"disk": "ssd", "zone": "a"}),
        ({"nodeSelector": {"disk": None, "zone": "a"}}, "nodeSelector", {"zone": "a"}),
        ({"nodeSelector": {"$patch": "replace", "zone": "a"}}, "nodeSelector", {"zone": "a"}),
        ({"nodeSelector": {"$patch": "delete"}}, "nodeSelector", {}),
        # A list without a merge key is replaced.
        ({"tolerations": [{"key": "u"}]}, "tolerations", [{"key": "u"}]),
        ({"containers": [{"name": "d", "args": ["3"]}]}, "containers", [_container(0), _container(1, args=["3"])]),
        ({"containers": [{"name": "e"}]}, "containers", [_container(0), _container(1), {"name": "e"}]),
        ({"containers": [{"name": "c", "$patch": "delete"}]}, "containers", [_container(1)]),
        ({"containers": [{"$patch": "replace"}, {"name": "e"}]}, "containers", [{"name": "e"}]),
        (
            {"containers": [{"name": "c", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]}]},
            "containers",
            [
                _container(
                    0,
                    env=[{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C", "value": "4"}],
                ),
                _container(1),
            ],
        ),
        (
            {"volumes": [{"name": "w", "emptyDir": {"medium": "Memory"}}]},
            "volumes",
            [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {"medium": "Memory"}}],
        ),
        ({"hostNetwork": True}, "hostNetwork", True),
    ],
)
def test_patch_merges_as_kubernetes_does(patch: Json, part: str, result: Any) -> None:  # noqa: ANN401 - JSON
    """Objects are merged, lists with a merge key by it, and other lists are replaced."""
    assert schema().faults({"spec": patch}) == []
    patched = schema().patched(POD, {"spec": patch})
    assert patched["spec"][part] == result
    assert {name: content for name, content in patched["spec"].items() if name != part} == {
        name: content for name, content in POD["spec"].items() if name != part
    }


def test_values_of_a_list_are_merged_and_deleted() -> None:
    """A list of texts with the strategy merge gets further ones; $deleteFromPrimitiveList takes them away."""
    patch = {"metadata": {"finalizers": ["y", "z"]}}
    assert schema().patched(POD, patch)["metadata"]["finalizers"] == ["x", "y", "z"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}
    assert schema().faults(patch) == []
    assert schema().patched(POD, patch)["metadata"]["finalizers"] == ["y"]
