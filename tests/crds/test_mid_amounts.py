from typing import Any

import pytest

from crds.mid_amounts import implausible_amounts, unlimited_resources
from crds.names import MID_CPU, MID_MEMORY
from tests.support.objects import pod


@pytest.mark.parametrize(
    ("amounts", "texts"),
    [
        ({MID_CPU: "500m"}, ["kubernetes.io/mid-cpu 500m counts as 1 milli-core: write 500"]),
        ({MID_CPU: "0.5"}, ["kubernetes.io/mid-cpu 0.5 counts as 1 milli-core: write 500"]),
        ({MID_CPU: "1500m"}, ["kubernetes.io/mid-cpu 1500m counts as 2 milli-cores: write 1500"]),
        ({MID_CPU: 2}, ["kubernetes.io/mid-cpu 2 counts as 2 milli-cores: write 2000"]),
        ({MID_CPU: "10.5"}, ["kubernetes.io/mid-cpu 10.5 counts as 11 milli-cores: write 11"]),
        ({MID_MEMORY: "128m"}, ["kubernetes.io/mid-memory 128m counts as 1 byte: write it in Mi or Gi"]),
        ({MID_MEMORY: "512"}, ["kubernetes.io/mid-memory 512 counts as 512 bytes: write it in Mi or Gi"]),
        (
            {MID_MEMORY: "2000000.5"},
            ["kubernetes.io/mid-memory 2000000.5 counts as 2000001 bytes: write it in Mi or Gi"],
        ),
        ({MID_CPU: "10", MID_MEMORY: "1Mi"}, []),
        ({MID_CPU: "1k", MID_MEMORY: "1.5Gi"}, []),
        ({MID_CPU: "0", MID_MEMORY: "0"}, []),
        ({MID_CPU: "many"}, []),
        ({"cpu": "500m", "memory": "512"}, []),
    ],
)
def test_implausible_amounts(amounts: dict[str, Any], texts: list[str]) -> None:
    """An amount that is no integer, or smaller than any pod needs, is named with the amount that it counts as."""
    assert implausible_amounts(pod("p", amounts)) == [f"container c: {text}" for text in texts]


def test_every_container_is_read_once() -> None:
    """Requests and limits of containers and init containers are read; equal ones are named once."""
    made = pod("p", {MID_CPU: "500m"})
    made["spec"]["containers"][0]["resources"]["limits"] = {MID_CPU: "500m"}
    made["spec"]["initContainers"] = [{"name": "first", "resources": {"limits": {MID_CPU: "1"}}}, {"name": "second"}]
    assert [text.partition(":")[0] for text in implausible_amounts(made)] == ["container first", "container c"]
    assert implausible_amounts({}) == []


BOTH = {"cpu": "2", "memory": "2Gi"}


@pytest.mark.parametrize(
    ("limits", "of_pod", "unlimited"),
    [
        ([BOTH, BOTH], {}, ()),
        ([BOTH, {"cpu": "2"}], {}, ("memory",)),  # a sidecar that a webhook added
        ([{}], {}, ("cpu", "memory")),
        ([{MID_CPU: "500", MID_MEMORY: "1Gi"}], {}, ("cpu", "memory")),
        ([{"cpu": "0", "memory": "0"}], {}, ("cpu", "memory")),  # kubelet sets no limit for 0
        ([{"cpu": "many", "memory": "1Gi"}], {}, ("cpu",)),
        ([{}, {"cpu": "1"}], {"memory": "1Gi"}, ("cpu",)),
    ],
)
def test_unlimited_resources(limits: list[dict[str, str]], of_pod: dict[str, str], unlimited: tuple[str, ...]) -> None:
    """A resource is limited by a limit of every container, or by one of the whole pod."""
    first, *others = [{"name": f"c{row}", "resources": {"limits": amounts}} for row, amounts in enumerate(limits)]
    for kind in ("containers", "initContainers"):
        spec = {"containers": [first], kind: [*([first] if kind == "containers" else []), *others]}
        assert unlimited_resources({"spec": {**spec, "resources": {"limits": of_pod}}}) == unlimited
