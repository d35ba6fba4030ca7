from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import names, priority
from crds.priority import DEFAULT_VALUE, VALUES, PriorityBand, QoS

GUARANTEED = {"cpu": "1", "memory": "1Gi"}


def _pod(
    value: int | None = None, band: str | None = None, qos: str | None = None, **resources: dict[str, str]
) -> dict[str, Any]:
    labels = {names.LABEL_PRIORITY_CLASS: band, names.LABEL_QOS: qos}
    return {
        "metadata": {"labels": {key: text for key, text in labels.items() if text is not None}},
        "spec": {"priority": value, "containers": [{"resources": resources}]},
    }


@pytest.mark.parametrize(
    ("value", "band"),
    [
        (None, PriorityBand.NONE),
        (0, PriorityBand.NONE),
        (2999, PriorityBand.NONE),
        (3000, PriorityBand.FREE),
        (3999, PriorityBand.FREE),
        (4000, PriorityBand.NONE),
        (5000, PriorityBand.BATCH),
        (7999, PriorityBand.MID),
        (8999, PriorityBand.NONE),
        (9999, PriorityBand.PROD),
        (10000, PriorityBand.NONE),
        (2000001000, PriorityBand.NONE),  # system-node-critical
    ],
)
def test_band_of_number(value: int | None, band: PriorityBand) -> None:
    """The numeric bands include both ends and leave gaps between them."""
    assert priority.band_of_value(value) is band


@pytest.mark.parametrize(
    ("pod", "raw", "band"),
    [
        (_pod(5500, band="koord-prod"), PriorityBand.PROD, PriorityBand.PROD),  # the label wins
        (_pod(5500, band="KOORD-PROD"), PriorityBand.NONE, PriorityBand.BATCH),  # an unknown label hides the number
        (_pod(7500, band="", requests={"cpu": "1"}), PriorityBand.NONE, PriorityBand.PROD),  # so does an empty one
        (_pod(), PriorityBand.NONE, PriorityBand.BATCH),  # best effort
        (_pod(requests={"cpu": "1"}), PriorityBand.NONE, PriorityBand.PROD),
        (_pod(qos="BE", requests={"cpu": "1"}), PriorityBand.NONE, PriorityBand.BATCH),
        (_pod(qos="SYSTEM"), PriorityBand.NONE, PriorityBand.PROD),
        ({}, PriorityBand.NONE, PriorityBand.BATCH),
        ({"status": {"qosClass": "Unknown"}}, PriorityBand.NONE, PriorityBand.NONE),  # a class of a later Kubernetes
        (None, PriorityBand.NONE, PriorityBand.NONE),
    ],
)
def test_band_of_pod(pod: dict[str, Any] | None, raw: PriorityBand, band: PriorityBand) -> None:
    """The label wins, then the number, then the QoS class."""
    assert priority.priority_class_raw(pod) is raw
    assert priority.priority_class(pod) is band


@pytest.mark.parametrize(
    ("pod", "kubernetes", "qos"),
    [
        (_pod(requests=GUARANTEED, limits=GUARANTEED), "Guaranteed", QoS.LSR),
        (_pod(requests={"cpu": "1"}, limits=GUARANTEED), "Burstable", QoS.LS),
        (_pod(requests={"cpu": "1000m", "memory": "1024Mi"}, limits=GUARANTEED), "Guaranteed", QoS.LSR),
        (_pod(limits={"cpu": "1"}), "Burstable", QoS.LS),
        (_pod(requests={"cpu": "0"}), "BestEffort", QoS.BE),
        (_pod(requests={names.BATCH_CPU: "1000"}), "BestEffort", QoS.BE),  # extended resources do not count
        (_pod(qos="be"), "BestEffort", QoS.BE),  # case matters: unset
        (_pod(qos="LSE"), "BestEffort", QoS.LSE),
        ({"status": {"qosClass": "Guaranteed"}}, "Guaranteed", QoS.LSR),  # the status decides
        ({"spec": {"resources": {"requests": GUARANTEED, "limits": GUARANTEED}}}, "Guaranteed", QoS.LSR),  # pod level
        (
            {"spec": {"resources": {}, "containers": [{"resources": {"requests": GUARANTEED}}]}},
            "BestEffort",  # the pod level decides even when it says nothing
            QoS.BE,
        ),
        (
            {"spec": {"containers": [{"resources": {"requests": GUARANTEED, "limits": GUARANTEED}}, {}]}},
            "Burstable",  # one container without limits
            QoS.LS,
        ),
    ],
)
def test_qos_of_pod(pod: dict[str, Any], kubernetes: str, qos: QoS) -> None:
    """The QoS class follows the label, else the Kubernetes class, which is computed when the status has none."""
    assert priority.kubernetes_qos(pod) == kubernetes
    assert priority.qos(pod) is qos


@pytest.mark.parametrize(
    ("pod", "tier"),
    [
        (_pod(9500), PriorityBand.PROD),
        (_pod(10, requests={"cpu": "1"}), PriorityBand.PROD),  # no band counts as Prod
        (_pod(7500), PriorityBand.MID),
        (_pod(9500, requests={names.MID_CPU: "1000"}), PriorityBand.MID),  # a pod that requests Mid is Mid
        (_pod(9500, limits={names.MID_MEMORY: "1Gi"}), PriorityBand.MID),
        (_pod(), PriorityBand.BATCH),
        (_pod(3500), PriorityBand.FREE),
        (_pod(9500, requests={names.MID_CPU: "0", "cpu": "4"}), PriorityBand.PROD),  # 0 takes nothing from Mid
        (_pod(9500, requests={names.MID_CPU: "0m"}, limits={names.MID_MEMORY: "0Gi"}), PriorityBand.PROD),
        (_pod(9500, requests={names.MID_CPU: "0e3"}, limits={names.MID_CPU: "-1"}), PriorityBand.PROD),
        (_pod(9500, requests={names.MID_CPU: "0", names.MID_MEMORY: "1"}), PriorityBand.MID),
        (_pod(9500, requests={names.MID_CPU: "0"}, limits={names.MID_CPU: "1"}), PriorityBand.MID),
        (_pod(9500, requests={names.MID_CPU: "much"}), PriorityBand.PROD),  # as not requested
        (_pod(9500, requests={names.MID_CPU: "much", names.MID_MEMORY: "1Ki"}), PriorityBand.MID),
        (_pod(7500, requests={names.MID_CPU: "0"}), PriorityBand.MID),
    ],
)
def test_tier_of_pod(pod: dict[str, Any], tier: PriorityBand) -> None:
    """Sums know four tiers; a pod that requests Mid is Mid whatever its label says."""
    assert priority.tier(pod) is tier


@given(st.sampled_from(list(VALUES)))
def test_default_value_in_band(band: PriorityBand) -> None:
    """The default number of a band lies in that band, and a pod of the band has it."""
    assert priority.band_of_value(DEFAULT_VALUE[band]) is band
    assert priority.priority_value(_pod(band=band)) == DEFAULT_VALUE[band]


@given(st.integers(-(2**31), 2**31 - 1))
def test_stated_value_stays(value: int) -> None:
    assert priority.priority_value(_pod(value)) == value
