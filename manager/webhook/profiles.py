"""Reviews for ClusterColocationProfiles: edits of profiles, and new pods that a profile matches. No I/O."""

import random
from typing import Any, Final

from crds.cluster_colocation_profile import GROUP, PLURAL, VERSION, ClusterColocationProfile
from crds.mid_translation import Translation
from manager.profiles.profile import read
from manager.profiles.state import Profiles
from manager.webhook import admission, pods

PATH: Final = PLURAL  # path of the webhook that reviews edits
_RESOURCE: Final = f"{GROUP}/{VERSION}/{PLURAL}"

Json = dict[str, Any]


def review_profile(body: bytes, profiles: Profiles) -> tuple[str, Json]:
    """Return the result of the review of an edit (allowed, refused) and the response.

    Raises:
        NotAReviewError: the body is no request of an API server.
    """
    identity, request = admission.decode(body)
    edited = request.get("object")
    stored = request.get("operation") in {"CREATE", "UPDATE"} and not request.get("subResource")
    # Koordinator evaluates the profiles where its webhook applies them.
    if stored and not profiles.other_webhook and admission.resource(request) == _RESOURCE and isinstance(edited, dict):
        profile = read(edited, profiles.classes, profiles.schema)
        before = request.get("oldObject")
        unchanged = isinstance(before, dict) and before.get("spec") == edited.get("spec")
        if profile.faults and not unchanged:  # an edit of labels is admitted, also of a profile with faults
            return "refused", admission.rejected(identity, ClusterColocationProfile.KIND, profile.name, profile.faults)
    return "allowed", admission.allowed(identity)


def review_pod(body: bytes, name: str, profiles: Profiles) -> tuple[str, Json]:
    """Return the result of the review of a pod that a profile matches, and the response; see `pods.review`."""

    def translate(pod: Json) -> Translation:
        profile = profiles.all().get(name)
        if profile is None or random.random() * 100 >= profile.percent:  # noqa: S311 - a share of pods
            return Translation(pod)
        return profiles.apply(name, pod)

    return pods.review(body, translate)
