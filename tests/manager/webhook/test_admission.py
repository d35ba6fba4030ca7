import json
import logging
from typing import Any

import kopf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.config.findings import ConfigFinding
from manager.handlers import admission as handler
from manager.webhook import admission
from manager.webhook.admission import HANDLER
from tests.manager.webhook.served import KEY, NAME, NAMESPACE, review

Json = dict[str, Any]


def requested(**fields: Any) -> admission.AdmissionRequest:  # noqa: ANN401 - arguments of review
    return admission.read(json.dumps(review(**fields)).encode())


def refused(message: str, **more: object) -> Json:
    response = {"uid": "u", "allowed": False, "status": {"message": message, "code": 422}, **more}
    return dict(json.loads(json.dumps(admission.answer(requested(), {"response": response})))["response"])


def test_request_is_read() -> None:
    result = requested(text="{}", before="[]", user="jane")
    assert (result.operation, result.resource, result.name) == ("UPDATE", "v1/configmaps", NAME)
    assert (result.user, result.text, result.before) == ("jane", "{}", "[]")
    assert result.concerns(NAMESPACE, NAME)
    body = review(operation="CREATE", before=None)
    body["request"]["name"] = ""
    assert admission.read(json.dumps(body).encode()).concerns(NAMESPACE, NAME)


MALFORMED: list[Any] = [
    None,
    True,
    7,
    "x",
    "\ud800",
    [],
    ["a"],
    {},
    {"username": 7},
    {"metadata": 3},
    {"metadata": {"name": []}},
]
MALFORMED += [{"data": [KEY]}, {"data": {KEY: {}}}, {"group": 1, "version": ["v1"], "resource": {}}]
FIELDS = st.sampled_from(["operation", "resource", "namespace", "name", "userInfo", "object", "oldObject", "uid"])


@given(st.dictionaries(FIELDS, st.sampled_from(MALFORMED)))
def test_malformed_requests_are_ignored(fields: Json) -> None:
    body = review()
    body["request"].update(fields)
    try:
        result = admission.read(json.dumps(body).encode())
    except admission.NotAReviewError:
        return
    json.dumps(admission.for_kopf(result))
    assert admission.allowed(result)["response"]["uid"] == result.uid


def test_kopf_gets_no_further_events() -> None:
    body = review(text="{}")
    body["request"]["object"]["data"]["other"] = "x" * 1000
    reduced = admission.for_kopf(admission.read(json.dumps(body).encode()))["request"]
    assert reduced["object"]["metadata"] == {"name": NAME, "namespace": NAMESPACE}
    assert (reduced["object"]["data"], reduced["uid"]) == ({KEY: "{}"}, body["request"]["uid"])


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        (f"Webhook '{HANDLER}' failed permanently: x", False),  # a refusal, which the server logs
        (f"Webhook '{HANDLER}' failed with an exception and will stop now: x", True),
        ("Handler 'nodes' failed permanently: x", True),
    ],
)
def test_only_refusals_of_kopfs_log_are_left_out(message: str, *, kept: bool) -> None:
    logger = logging.getLogger("kopf.objects")
    for _ in range(3):
        handler.register(kopf.OperatorRegistry())
    assert logger.filters.count(handler._is_logged_by_server) == 1
    record = logger.makeRecord(logger.name, logging.ERROR, "", 0, "%s", (message,), None)
    assert bool(logger.filter(record)) is kept


def test_refusal_is_a_status() -> None:
    """Each fault becomes a cause with its path, as of any invalid object, so that kubectl shows one line for each."""
    unknown, invalid = "unknown field: did you mean enable?", "not valid JSON"
    faults = (ConfigFinding("nodeConfigs[0].enabl", unknown), ConfigFinding("", invalid))
    result = refused(admission.folded(faults))
    status = result["status"]
    assert (result["allowed"], status["code"], status["reason"], status["details"]["name"]) == (
        False,
        422,
        "Invalid",
        NAME,
    )
    assert status["details"]["causes"] == [
        {"reason": "FieldValueInvalid", "field": "nodeConfigs[0].enabl", "message": unknown},
        {"reason": "FieldValueInvalid", "field": "data.colocation-config", "message": invalid},
    ]
    assert f"* nodeConfigs[0].enabl: {unknown}" in status["message"]


@pytest.mark.parametrize("message", ["", "boom", "null", "[]", "{}", '{"faults": 3, "more": 0}', '{"faults": [3]}'])
def test_fault_of_the_check_admits_with_a_warning(message: str) -> None:
    result = refused(message)
    assert result["allowed"] is True
    assert "was not checked" in result["warnings"][0]


@given(
    st.lists(st.builds(ConfigFinding, st.text(), st.text()), min_size=1, max_size=4), st.lists(st.text(), max_size=3)
)
def test_any_fault_arrives_as_one_printable_line(faults: list[ConfigFinding], warnings: list[str]) -> None:
    result = refused(admission.folded(faults), warnings=warnings)
    causes = result["status"]["details"]["causes"]
    assert (len(causes), len(result.get("warnings", []))) == (len(faults), len(warnings))
    texts = [cause[part] for cause in causes for part in ("field", "message")] + result.get("warnings", [])
    assert all(text.isprintable() for text in texts)
    assert len(result["status"]["message"].splitlines()) == 1 + len(faults)


def test_many_faults_are_counted() -> None:
    faults = [ConfigFinding(f"f{index}", "wrong") for index in range(200)]
    causes = refused(admission.folded(faults))["status"]["details"]["causes"]
    assert (len(causes), causes[-1]["message"]) == (51, "and 150 more faults")


def test_warnings_fit_headers() -> None:
    texts = [f"{index}: é\n\x00\ud800{'ü' * 300}" for index in range(40)]
    answer = admission.answer(requested(), {"response": {"allowed": True, "warnings": texts}})
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    warnings = answer["response"]["warnings"]
    assert (len(warnings), warnings[-1]) == (13, "and 28 more warnings")
    assert all(warning.isprintable() and len(warning.encode()) <= 256 for warning in warnings)
    assert warnings[0].startswith("0: é\\n\\x00\\ud800ü")
    assert warnings[0].endswith("…")
