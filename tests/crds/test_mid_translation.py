import copy
import random
from typing import Any

import pytest

from crds.mid_amounts import unlimited_resources
from crds.mid_translation import to_mid
from crds.names import ANNOTATION_CONFIG_MIRROR, MID_CPU, MID_MEMORY
from crds.priority import PriorityBand, tier
from crds.quantity import QuantityError, parse_quantity
from headroom.cluster.pod import pod_requests
from tests.crds.mid_cases import Case, cases, expanded, random_pod, shortened


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_each_case_becomes_its_result(case: Case) -> None:
    """A pod of the table becomes the pod of the table, with the warning of the table, and is not changed itself."""
    pod = case.as_defaulted()
    before = copy.deepcopy(pod)
    result = to_mid(pod)
    assert shortened(result.pod) == case.becomes
    assert result.warnings == ((case.warning,) if case.warning else ())
    assert pod == before
    assert (result.pod is pod) == (case.pod == case.becomes)


def _amounts(pod: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:  # noqa: ANN401 - JSON
    containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    resources = [container.get("resources", {}) for container in containers]
    return [(part.get("requests", {}), part.get("limits", {})) for part in resources]


def test_random_pods_become_mid_or_stay_unchanged() -> None:
    """Each of 10,000 random pods is left unchanged with a warning, or is Mid, and a second translation is the same.

    Mid requests equal Mid limits, native requests are 0, and native limits are above 0.
    """
    choices = random.Random(36)  # noqa: S311 - no secret
    translated = 0
    for _ in range(10_000):
        pod = random_pod(choices)
        result = to_mid(pod)
        again = to_mid(result.pod)
        assert again.pod == result.pod
        assert again.warnings == result.warnings
        if result.pod is pod and tier(pod) != PriorityBand.MID:
            assert len(result.warnings) == 1, pod
            continue
        if any("left unchanged" in warning for warning in result.warnings):
            continue
        translated += 1
        assert bool(unlimited_resources(result.pod)) == bool(result.warnings)
        for requests, limits in _amounts(result.pod):
            for native, mid in (("cpu", MID_CPU), ("memory", MID_MEMORY)):
                amount = parse_quantity(requests.get(mid, 0))
                assert amount == parse_quantity(limits.get(mid, 0))
                assert parse_quantity(requests.get(native, 0)) == 0
                assert parse_quantity(limits.get(native, 0)) > 0 or amount == 0
    assert translated > 3000


def test_mirror_pod_is_never_changed() -> None:
    """The API object of a static pod is left unchanged without a warning."""
    pod = expanded({"containers": [{"requests": {"cpu": "1"}}]})
    pod["metadata"]["annotations"] = {ANNOTATION_CONFIG_MIRROR: "hash"}
    assert to_mid(pod).pod is pod
    assert to_mid(pod).warnings == ()


def test_amount_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(QuantityError):
        to_mid(expanded({"containers": [{"requests": {"cpu": "many"}}]}))


def test_resize_and_autoscaler_find_no_native_request() -> None:
    """Native requests of a Mid pod are 0: an HPA on CPU utilization has no base, and a resize changes no Mid amount."""
    before = expanded({"containers": [{"requests": {"cpu": "1", "memory": "1Gi"}}]})
    pod = to_mid(before).pod
    requests = pod_requests(pod)
    assert requests["cpu"] == requests["memory"] == 0
    resized = copy.deepcopy(dict(pod))
    resized["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "3"
    assert to_mid(resized).pod["spec"]["containers"] == resized["spec"]["containers"]
