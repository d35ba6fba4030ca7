"""Every part agrees on which pods requested Mid resources."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.pods import pod_ref
from crds.names import LABEL_PRIORITY_CLASS, MID_CPU, MID_MEMORY
from crds.priority import PriorityBand
from kubectl_headroom.pod.inputs import PodSnapshot
from kubectl_headroom.top.pods import pod_rows
from manager.inputs import PodInputs
from manager.mid.explanation.node_metric import Amount
from scheduler_plugins.plugins.mid_resources import holds_mid
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.pod import PodRequest

NOW = 1_735_689_600.0
AMOUNTS = {"0": 0, "0m": 0, "-0": 0, "0Gi": 0, "1": 1, "2k": 2000, "1Ki": 1024, "3e3": 3000}
MID = st.dictionaries(st.sampled_from([MID_CPU, MID_MEMORY]), st.sampled_from(sorted(AMOUNTS)))


def _pod(*containers: dict[str, str], init: tuple[dict[str, str], ...] = ()) -> dict[str, Any]:
    """A Prod pod of four cores that runs and requests these Mid resources; limits as the API server wants them."""

    def made(mid: dict[str, str]) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": "4", "memory": "8Gi", **mid}, "limits": dict(mid)}}

    labels = {LABEL_PRIORITY_CLASS: "koord-prod"}
    return {
        "metadata": {"namespace": "shop", "name": "p", "uid": "u", "labels": labels},
        "spec": {
            "nodeName": "n1",
            "containers": [made(container) for container in containers],
            "initContainers": [made(entry) for entry in init],
        },
        "status": {"phase": "Running", "qosClass": "Burstable"},
    }


def _evaluated(pod: dict[str, Any]) -> dict[str, bool]:
    """Return whether each part takes the pod for one that requested Mid resources."""
    facts, request = PodInputs.from_object(pod), PodRequest.from_json(pod, LoadRules())
    return {
        "agent, backtest": pod_ref(pod).band is PriorityBand.MID,
        "manager: nothing above Mid": facts.band is PriorityBand.MID,
        "manager: the floor": facts.holds_mid,
        "manager: eviction": facts.mid is not None,
        "scheduler": request.requests_mid,
        "scheduler: MidResources": holds_mid(request),
        "explain pod": PodSnapshot(pod, NOW).is_mid,
    }


@given(st.lists(MID, min_size=1, max_size=2), st.lists(MID, max_size=1))
def test_all_parts_agree(containers: list[dict[str, str]], init: list[dict[str, str]]) -> None:
    """A pod that requests more than 0 of a Mid resource is Mid for every part; with 0 for none."""
    requests_mid = any(AMOUNTS[amount] for entry in (*containers, *init) for amount in entry.values())
    assert _evaluated(_pod(*containers, init=tuple(init))) == dict.fromkeys(_evaluated(_pod({})), requests_mid)


@pytest.mark.parametrize("zero", ["0", "0m", "0Gi"])
def test_zero_keeps_prod_requests(zero: str) -> None:
    """The native requests of a Prod pod that states 0 of Mid still precede Mid, and are shown."""
    pod = _pod({MID_CPU: zero, MID_MEMORY: zero})
    facts = PodInputs.from_object(pod)
    assert (facts.above_mid, facts.requests.cpu) == (True, 4000)
    (row,) = pod_rows([pod], [], NOW)
    assert row.requested == PodSnapshot(pod, NOW).requested == Amount(4000, 8 * 2**30)


def test_memory_alone_is_shown() -> None:
    """A pod that requests Mid memory alone shows Mid resources, too."""
    pod = _pod({MID_MEMORY: "1Ki"})
    (row,) = pod_rows([pod], [], NOW)
    assert row.requested == PodSnapshot(pod, NOW).requested == Amount(0, 1024)
