"""Reviews of profiles, and of pods that profiles select."""

import json

import pytest

from crds.cluster_colocation_profile import GROUP, PLURAL
from manager.profiles.state import Profiles
from manager.webhook.profiles import PATH, review_pod, review_profile
from tests.manager.profiles.made import Json, known, made, pod
from tests.manager.webhook.served import serving
from tests.manager.webhook.test_pods import review


def _review(edited: Json, before: Json | None = None) -> bytes:
    body = review(edited, "CREATE" if before is None else "UPDATE", oldObject=before)
    body["request"]["resource"] = {"group": GROUP, "version": "v1alpha1", "resource": PLURAL}
    return json.dumps(body).encode()


def test_profile_with_faults_is_rejected() -> None:
    """The response has each fault with its field, as for every invalid object."""
    bad = made(qosClass="X", selector={"matchLabels": {"a b": "c"}})
    result, body = review_profile(_review(bad), known())
    response = body["response"]
    assert (result, response["allowed"], response["status"]["code"]) == ("refused", False, 422)
    fields = [cause["field"] for cause in response["status"]["details"]["causes"]]
    assert fields == ["spec.selector.matchLabels", "spec.qosClass"]
    assert response["status"]["message"].startswith("ClusterColocationProfile mid is not usable:\n* spec.selector")


def test_other_edits_are_admitted() -> None:
    """Sound profiles pass, and edits that leave a wrong spec as it was, and all edits beside Koordinator's webhook."""
    bad = made(qosClass="X")
    assert review_profile(_review(made(qosClass="LS")), known())[0] == "allowed"
    relabelled = {**bad, "metadata": {**bad["metadata"], "labels": {"a": "b"}}}
    assert review_profile(_review(relabelled, bad), known())[0] == "allowed"
    assert review_profile(_review(made(qosClass="Y"), bad), known())[0] == "refused"
    profiles = known()
    profiles.other_webhook = "koord"
    assert review_profile(_review(bad), profiles)[0] == "allowed"
    assert review_profile(_review(made(priorityClassName="x")), Profiles())[0] == "allowed"  # no class is known yet


@pytest.mark.parametrize(("probability", "share"), [(None, 1.0), ("30%", 0.3), (0, 0.0), (100, 1.0)])
def test_share_of_pods_is_changed(probability: object, share: float) -> None:
    """A profile with a probability changes about that share of the pods."""
    more: Json = {} if probability is None else {"probability": probability}
    profiles, body = known(made(labels={"a": "b"}, **more)), json.dumps(review(pod())).encode()
    results = [review_pod(body, "mid", profiles)[0] for _ in range(1000)]
    assert abs(results.count("translated") / 1000 - share) < 0.07
    assert set(results) <= {"translated", "unchanged"}


async def test_pages_of_the_server() -> None:
    """API servers reach the reviews of edits, and of the pods of each profile by its name."""
    async with serving() as served:
        served.profiles.classes = {}
        served.profiles.replace([made("mid.example", labels={"a": "b"})])
        status, answer = await served.post(review(pod()), "/profiles/mid.example")
        assert (status, answer["response"]["patchType"]) == (200, "JSONPatch")
        status, answer = await served.post(review(pod()), "/profiles/other")
        assert (status, "patch" in answer["response"]) == (200, False)
        status, answer = await served.post(_review(made(qosClass="X")), f"/{PATH}")
        assert (status, answer["response"]["allowed"]) == (200, False)
        status, _ = await served.post(b"no review", "/profiles/mid.example")
        assert status == 400
