import copy
import random
from pathlib import Path
from typing import Any

import pytest

from crds.mid_amounts import unlimited_resources
from crds.mid_translation import to_mid
from crds.names import ANNOTATION_CONFIG_MIRROR, MID_CPU, MID_MEMORY
from crds.priority import PriorityBand, tier
from crds.quantity import QuantityError, parse_quantity
from headroom.cluster.pod import pod_requests
from tests.architecture.sources import ROOT
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


OTHER_ROWS = {
    "ephemeral containers": "test_ephemeral_containers_stay",
    "static pods": "test_mirror_pod_is_never_changed",
    "in-place resize": "test_resize_and_autoscaler_find_no_native_request",
    "HPA on CPU utilization": "test_resize_and_autoscaler_find_no_native_request",
    "LimitRange": "test_limit_ranges_and_quotas_count_native_amounts",
    "ResourceQuota": "test_limit_ranges_and_quotas_count_native_amounts",
}
"""Rows of the table in docs/profiles.md without a case -> their test."""


def test_every_row_of_the_page_has_a_test() -> None:
    """The rows of the table are those of the cases, and those of the tests above and of tests/charts."""
    page = (ROOT / "docs/profiles.md").read_text().partition("## The translation")[2].partition("## Profiles")[0]
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")][1:]
    assert sorted(rows) == sorted({*OTHER_ROWS, *(case.row for case in cases())})
    text = Path(__file__).read_text() + (ROOT / "tests/charts/test_mid_namespaces.py").read_text()
    assert [test for test in OTHER_ROWS.values() if f"def {test}(" not in text] == []


def test_ephemeral_containers_stay() -> None:
    pod = expanded({"containers": [{"requests": {"cpu": "1", "memory": "1Gi"}}]})
    pod["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "none"}]
    assert to_mid(pod).pod["spec"]["ephemeralContainers"] == pod["spec"]["ephemeralContainers"]
    assert to_mid(pod).warnings == ()
