"""Admission reviews: requests of an API server, and responses. No I/O.

kopf gets only the fields that its handler reads, so that no foreign request costs memory for long.
Its answer carries one text; ours is a whole status, so that `kubectl edit` opens again with each fault on a line.
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from crds.names import CONFIG_MAP_KEY
from headroom.runtime.sanitize import printable
from manager.config.findings import ConfigFinding, resembling

HANDLER: Final = "configmaps"  # path of the webhook, and id of kopf's handler
UNPROCESSABLE: Final = 422  # HTTP status of a refusal, as of every invalid object
_VERSIONS: Final = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
_MOST_PARTS: Final = 500_000
"""Objects and lists in a review, its texts included: four times as many as in those of the largest sensible config."""
_MOST_CAUSES: Final = 50
_MOST_WARNINGS: Final = 12
_LONGEST_WARNING: Final = 240  # API servers cut at 256 bytes
_LONGEST_CAUSE: Final = 1000

Json = dict[str, Any]


class NotAReviewError(ValueError):
    """The body is not a request of an API server; one line with the reason."""


@dataclass(frozen=True, slots=True)
class Review:
    """The identity of a request."""

    version: str  # apiVersion of the review
    uid: str  # identity of the request, which the response repeats


@dataclass(frozen=True, slots=True)
class AdmissionRequest(Review):
    """The fields of a request about the config that the webhook reads."""

    operation: str  # CREATE, UPDATE, DELETE or CONNECT
    resource: str  # such as "v1/configmaps"
    namespace: str  # namespace of the object
    name: str  # name of the object
    user: str  # the editing user
    text: str | None  # the config as it would be; `None` when there would be none
    before: str | None  # the present config; `None` without one
    misspelt_keys: tuple[str, ...] = ()

    def concerns(self, namespace: str, name: str) -> bool:
        stored = self.operation in {"CREATE", "UPDATE"} and self.resource == "v1/configmaps"
        return stored and (self.namespace, self.name) == (namespace, name)


def decode(body: bytes) -> tuple[Review, Json]:
    """Return the identity and the content of a request of an API server.

    Raises:
        NotAReviewError: it is no such request.
    """
    if body.count(b"{") + body.count(b"[") > _MOST_PARTS:  # parsed, 8 MiB of them are 240 MiB and take a second
        raise NotAReviewError("the body has more parts than any review")
    try:
        review = json.loads(body)
    except (ValueError, RecursionError):  # also invalid UTF-8
        raise NotAReviewError("the body is not JSON") from None
    version = review.get("apiVersion") if isinstance(review, dict) else None
    if not isinstance(review, dict) or version not in _VERSIONS or review.get("kind") != "AdmissionReview":
        raise NotAReviewError(f"the body is not an AdmissionReview of {' or '.join(_VERSIONS)}")
    request = review.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str) or not request["uid"]:
        raise NotAReviewError("the AdmissionReview has no request with a uid")
    return Review(str(version), request["uid"]), request


def read(body: bytes) -> AdmissionRequest:
    """Decode a request about the config. Raises as `decode`."""
    review, request = decode(body)
    now, before = _mapping(request, "object"), _mapping(request, "oldObject")
    metadata = _mapping(now or before, "metadata")
    return AdmissionRequest(
        version=review.version,
        uid=review.uid,
        operation=str(request.get("operation", "")),
        resource=resource(request),
        namespace=str(request.get("namespace") or metadata.get("namespace") or ""),
        name=str(request.get("name") or metadata.get("name") or ""),
        user=str(_mapping(request, "userInfo").get("username", "")),
        text=_text(now),
        before=_text(before),
        misspelt_keys=resembling(CONFIG_MAP_KEY, _mapping(now, "data")),
    )


def resource(request: Mapping[str, Any]) -> str:
    """Return the resource of a request, such as "v1/pods" or "apps/v1/deployments"."""
    parts = _mapping(request, "resource")
    return "/".join(str(parts[part]) for part in ("group", "version", "resource") if parts.get(part))


def for_kopf(review: AdmissionRequest) -> Json:
    """Return the request for kopf: reduced to the fields that the handler reads, and without an object uid to store."""

    def config_map(text: str | None, keys: Iterable[str] = ()) -> Json:
        metadata = {"name": review.name, "namespace": review.namespace}
        data = dict.fromkeys(keys, "") | ({} if text is None else {CONFIG_MAP_KEY: text})
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    request = {
        "uid": review.uid,
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "operation": review.operation,
        "userInfo": {"username": review.user},
        "name": review.name,
        "namespace": review.namespace,
        "object": config_map(review.text, review.misspelt_keys),
        "oldObject": config_map(review.before) if review.operation == "UPDATE" else None,
    }
    return {"apiVersion": review.version, "kind": "AdmissionReview", "request": request}


def folded(faults: Sequence[ConfigFinding]) -> str:
    shown = [{"field": fault.path, "message": fault.message} for fault in faults[:_MOST_CAUSES]]
    return json.dumps({"faults": shown, "more": max(len(faults) - _MOST_CAUSES, 0)})


def answer(review: AdmissionRequest, given: Mapping[str, Any]) -> Json:
    """The answer to a request, from what kopf gives; what failed inside is admitted, with a warning."""
    response = given["response"]
    warnings = response.get("warnings") or ()
    if response.get("allowed"):
        return allowed(review, warnings)
    try:
        refusal = json.loads(response["status"]["message"])
        faults, more = [(fault["field"], fault["message"]) for fault in refusal["faults"]], refusal["more"]
    except (ValueError, KeyError, TypeError):
        return unchecked(review, "its check failed; please report it")
    causes = [_cause(field, message) for field, message in faults]
    if more:
        causes.append(_cause("", f"and {more} more faults"))
    return _refusal(review, ("ConfigMap", review.name, f"{CONFIG_MAP_KEY} is not usable"), causes, warnings)


def rejected(review: Review, kind: str, name: str, faults: Sequence[ConfigFinding]) -> Json:
    """Return a review that rejects an object for its faults, each with its field."""
    causes = [_cause(fault.path, fault.message) for fault in faults[:_MOST_CAUSES]]
    return _refusal(review, (kind, name, f"{kind} {printable(name)} is not usable"), causes, ())


def _refusal(review: Review, about: tuple[str, str, str], causes: Sequence[Json], warnings: Iterable[str]) -> Json:
    """Return a review that rejects an object of a kind and name, with a sentence and the causes."""
    kind, name, sentence = about
    lines = "\n".join(f"* {cause['field']}: {cause['message']}" for cause in causes)
    status = {
        "status": "Failure",
        "code": UNPROCESSABLE,
        "reason": "Invalid",
        "message": f"{sentence}:\n{lines}",
        "details": {"name": name, "kind": kind, "causes": list(causes)},
    }
    return _review(review, {"allowed": False, "status": status}, warnings)


def allowed(review: Review, warnings: Iterable[str] = (), patch: Sequence[Json] = ()) -> Json:
    """Return a review that admits the object, changed by a JSON patch if there is one."""
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    changes = {"patchType": "JSONPatch", "patch": encoded} if patch else {}
    return _review(review, {"allowed": True, **changes}, warnings)


def unchecked(review: AdmissionRequest, why: str) -> Json:
    return allowed(review, [f"{CONFIG_MAP_KEY} was not checked by headroom-manager: {why}"])


def refused(review: Mapping[str, Any]) -> bool:
    return not review["response"]["allowed"]


def _review(review: Review, response: Json, warnings: Iterable[str]) -> Json:
    texts = [printable(str(warning)) for warning in warnings]
    cut = [_cut(warning, _LONGEST_WARNING) for warning in texts[:_MOST_WARNINGS]]
    if len(texts) > _MOST_WARNINGS:
        cut.append(f"and {len(texts) - _MOST_WARNINGS} more warnings")
    response = {"uid": review.uid, **response}
    if cut:
        response["warnings"] = cut
    return {"apiVersion": review.version, "kind": "AdmissionReview", "response": response}


def _cause(field: str, message: str) -> Json:
    where = printable(field) or f"data.{CONFIG_MAP_KEY}"
    return {"reason": "FieldValueInvalid", "field": where, "message": _cut(printable(message), _LONGEST_CAUSE)}


def _cut(text: str, longest_bytes: int) -> str:
    encoded = text.encode()
    if len(encoded) <= longest_bytes:
        return text
    return f"{encoded[: longest_bytes - 3].decode(errors='ignore')}…"


def _mapping(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = parent.get(name)
    return value if isinstance(value, dict) else {}


def _text(config_map: Mapping[str, Any]) -> str | None:
    text = _mapping(config_map, "data").get(CONFIG_MAP_KEY)
    return text if isinstance(text, str) else None
