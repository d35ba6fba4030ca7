"""Reviews: what is read of a request, and what the answers look like."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.config.findings import ConfigFinding
from manager.webhook import admission
from tests.manager.webhook.reviews import KEY, NAME, NAMESPACE, review

FAULTS = (
    ConfigFinding("nodeConfigs[0].enabl", "unknown field: did you mean enable?"),
    ConfigFinding("", "not valid JSON"),
)


def asked(**given: Any) -> admission.Asked:  # noqa: ANN401 - arguments of review
    """A request as it is read."""
    return admission.read(json.dumps(review(**given)).encode())


def test_request_is_read() -> None:
    """Who edits what, from which text to which, is taken from the request."""
    found = asked(text="{}", before="[]", user="jane")
    assert (found.operation, found.resource, found.name) == ("UPDATE", "v1/configmaps", NAME)
    assert (found.user, found.text, found.before) == ("jane", "{}", "[]")
    assert found.concerns(NAMESPACE, NAME)


@pytest.mark.parametrize(
    "given_",
    [
        {"operation": "DELETE"},
        {"operation": "CONNECT"},
        {"name": "other"},
        {"namespace": "elsewhere"},
        {"resource": "secrets"},
    ],
)
def test_rest_does_not_concern_us(given_: dict[str, Any]) -> None:
    """Deletions, other ConfigMaps and other kinds are nothing to judge."""
    assert not asked(**given_).concerns(NAMESPACE, NAME)


def test_name_may_stand_in_object() -> None:
    """On CREATE the name of the request may be empty: the object has it."""
    body = review(operation="CREATE", before=None)
    body["request"]["name"] = ""
    assert admission.read(json.dumps(body).encode()).concerns(NAMESPACE, NAME)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"hello",
        b"null",
        b"[]",
        b"[" * 100_000,
        b'{"kind": "AdmissionReview"}',
        b'{"apiVersion": ["x"], "kind": "AdmissionReview"}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "Pod", "request": {"uid": "1"}}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": 7}}',
        b'{"apiVersion": "admission.k8s.io/v2", "kind": "AdmissionReview", "request": {"uid": "1"}}',
    ],
)
def test_garbage_is_no_review(body: bytes) -> None:
    """What no API server sends is refused as a request, in one line."""
    with pytest.raises(admission.NotAReviewError) as error:
        admission.read(body)
    assert "\n" not in str(error.value)


odd: list[Any] = [
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
odd += [{"data": [KEY]}, {"data": {KEY: {}}}, {"group": 1, "version": ["v1"], "resource": {}}]
fields = st.sampled_from(["operation", "resource", "namespace", "name", "userInfo", "object", "oldObject", "uid"])


@given(st.dictionaries(fields, st.sampled_from(odd)))
def test_odd_requests_are_survived(given_: dict[str, Any]) -> None:
    """Fields of any type in a request end in a request that can be answered, or in one line."""
    body = review()
    body["request"].update(given_)
    try:
        found = admission.read(json.dumps(body).encode())
    except admission.NotAReviewError:
        return
    json.dumps(admission.for_kopf(found))
    assert admission.allowed(found)["response"]["uid"] == found.uid


def test_kopf_gets_no_more() -> None:
    """Kopf gets the key that its handler reads, and nothing by which it would remember the object."""
    body = review(text="{}")
    body["request"]["object"]["metadata"].update({"uid": "u", "annotations": {"a": "b"}})
    body["request"]["object"]["data"]["other"] = "x" * 1000
    reduced = admission.for_kopf(admission.read(json.dumps(body).encode()))["request"]
    assert reduced["object"]["metadata"] == {"name": NAME, "namespace": NAMESPACE}
    assert reduced["object"]["data"] == {KEY: "{}"}
    assert reduced["uid"] == body["request"]["uid"]


def kopf_refuses(message: str) -> dict[str, Any]:
    """Kopf's answer when its handler raised."""
    return {"response": {"uid": "u", "allowed": False, "status": {"message": message, "code": 422}}}


def test_refusal_is_a_status() -> None:
    """Each fault becomes a cause with its path, as of any invalid object, so that kubectl shows one line for each."""
    found = admission.answer(asked(), kopf_refuses(admission.folded(FAULTS)))["response"]
    assert found["allowed"] is False
    status = found["status"]
    assert (status["code"], status["reason"], status["details"]["name"]) == (422, "Invalid", NAME)
    assert status["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "field": "nodeConfigs[0].enabl",
            "message": "unknown field: did you mean enable?",
        },
        {"reason": "FieldValueInvalid", "field": "data.colocation-config", "message": "not valid JSON"},
    ]
    assert "* nodeConfigs[0].enabl: unknown field: did you mean enable?" in status["message"]


@pytest.mark.parametrize("message", ["", "boom", "null", "[]", "{}", '{"faults": 3, "more": 0}', '{"faults": [3]}'])
def test_own_fault_admits(message: str) -> None:
    """When the check itself fails, the edit passes, and a warning says that nothing was checked."""
    found = admission.answer(asked(), kopf_refuses(message))["response"]
    assert found["allowed"] is True
    assert "was not checked" in found["warnings"][0]


@given(
    st.lists(st.builds(ConfigFinding, st.text(), st.text()), min_size=1, max_size=4), st.lists(st.text(), max_size=3)
)
def test_any_words_travel(faults: list[ConfigFinding], warnings: list[str]) -> None:
    """Whatever an operator wrote, what is said about it arrives: no fault is lost, and each is one printable line."""
    given_ = kopf_refuses(admission.folded(faults))
    given_["response"]["warnings"] = warnings
    found = json.loads(json.dumps(admission.answer(asked(), given_)))["response"]
    causes = found["status"]["details"]["causes"]
    assert len(causes) == len(faults)
    assert len(found.get("warnings", [])) == len(warnings)
    said = [each[part] for each in causes for part in ("field", "message")] + found.get("warnings", [])
    assert all(each.isprintable() for each in said)
    assert len(found["status"]["message"].splitlines()) == 1 + len(faults)


def test_many_faults_are_counted() -> None:
    """Of hundreds of faults the first fifty are shown and the rest is counted."""
    faults = [ConfigFinding(f"f{index}", "wrong") for index in range(200)]
    causes = admission.answer(asked(), kopf_refuses(admission.folded(faults)))["response"]["status"]["details"][
        "causes"
    ]
    assert len(causes) == 51
    assert causes[-1]["message"] == "and 150 more faults"


def test_texts_fit_headers() -> None:
    """Warnings travel in HTTP headers: one line each, no control characters, no more than 256 bytes, not too many."""
    given_ = {"response": {"allowed": True, "warnings": [f"{index}: é\n\x00\ud800{'ü' * 300}" for index in range(40)]}}
    warnings = admission.answer(asked(), given_)["response"]["warnings"]
    assert len(warnings) == 13
    assert warnings[-1] == "and 28 more warnings"
    assert all(each.isprintable() and len(each.encode()) <= 256 for each in warnings)
    assert warnings[0].startswith("0: é\\n\\x00\\ud800ü")
    assert warnings[0].endswith("…")


def test_answer_has_the_version_asked() -> None:
    """The answer is of the version of the request, and repeats its uid."""
    found = admission.allowed(asked())
    assert (found["apiVersion"], found["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert found["response"] == {"uid": asked().uid, "allowed": True}
