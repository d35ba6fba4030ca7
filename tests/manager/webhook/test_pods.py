"""New pods of Mid namespaces: the cases of the translation, through the webhook."""

import base64
import json
import logging
from typing import Any

import pytest

from manager.webhook import pods
from manager.webhook.admission import NotAReviewError
from tests.crds.mid_cases import Case, cases, shortened
from tests.manager.webhook.served import serving

Json = dict[str, Any]


def review(pod: Any, operation: str = "CREATE", resource: str = "pods", **fields: Any) -> Json:  # noqa: ANN401 - JSON
    group = {"group": "", "version": "v1", "resource": resource}
    request = {"uid": "u", "operation": operation, "resource": group, "namespace": "reports", "object": pod, **fields}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def patched(pod: Json, response: Json) -> Json:
    """Apply the patch of a response to the fields of a pod's spec."""
    spec = dict(pod["spec"])
    for change in json.loads(base64.b64decode(response.get("patch", "W10="))):
        parent, _, name = change["path"].rpartition("/")
        assert parent == "/spec"
        if change["op"] == "remove":
            del spec[name]
        else:
            spec[name] = change["value"]
    return {**pod, "spec": spec}


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_each_case_becomes_its_result(case: Case) -> None:
    """The response of the webhook changes a pod as the function does, and has the same warning."""
    pod = case.as_defaulted()
    result, answer = pods.review(json.dumps(review(pod)).encode())
    response = answer["response"]
    assert response["allowed"] is True
    assert response["uid"] == "u"
    assert shortened(patched(pod, response)) == case.becomes
    assert response.get("warnings", []) == ([case.warning] if case.warning else [])
    assert ("patch" in response) == ("patchType" in response) == (result == "translated")
    assert result == ("unchanged" if case.pod == case.becomes else "translated")


POD = {
    "metadata": {},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
}


@pytest.mark.parametrize(
    "body",
    [
        review(POD, operation="UPDATE"),
        review(POD, operation="DELETE"),
        review(POD, resource="secrets"),
        review(POD, subResource="resize"),
        review(None),
        review([]),
    ],
)
def test_other_requests_are_admitted_unchanged(body: Json) -> None:
    result, answer = pods.review(json.dumps(body).encode())
    assert (result, answer["response"]) == ("unchanged", {"uid": "u", "allowed": True})


@pytest.mark.parametrize("pod", [{"spec": {"containers": 7}}, {"spec": [1]}, {"metadata": 1, "spec": {}}])
def test_pod_that_cannot_be_read_is_admitted_unchanged(pod: Json, caplog: pytest.LogCaptureFixture) -> None:
    """A failed translation admits the pod with a warning and a log line."""
    with caplog.at_level(logging.ERROR):
        result, answer = pods.review(json.dumps(review(pod)).encode())
    assert result == "failed"
    assert answer["response"]["allowed"] is True
    assert answer["response"]["warnings"] == ["headroom-manager left the pod unchanged: its translation failed"]
    assert "could not be translated" in caplog.text


def test_body_without_a_review_is_an_error() -> None:
    with pytest.raises(NotAReviewError):
        pods.review(b"{}")


async def test_server_counts_pods() -> None:
    """The listener serves reviews of pods beside those of the config, and counts the results."""
    async with serving() as served:
        status, answer = await served.post(review(POD), "/pods")
        assert (status, answer["response"]["patchType"]) == (200, "JSONPatch")
        assert (await served.post(review(None), "/pods"))[0] == 200
        assert (await served.post(b"{}", "/pods"))[0] == 400
        name = "headroom_manager_webhook_pods_total"
        counts = {r: served.metrics.registry.get_sample_value(name, {"result": r}) for r in ("translated", "unchanged")}
        assert counts == {"translated": 1.0, "unchanged": 1.0}
        assert served.count("malformed") == 1
