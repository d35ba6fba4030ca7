"""The profiles of a cluster, and the objects on which their result depends."""

from collections.abc import Mapping
from typing import Any, Final

from crds.cluster_colocation_profile import PATH
from headroom import kube
from kubectl_headroom import live
from kubectl_headroom.errors import CommandError
from manager.api import PROFILE_POD_SCHEMA, PodSchema, Profile, Profiles, changes_pods_of_koordinator, profile_condition

_WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_FORBIDDEN: Final = 403
_ABSENT: Final = (
    "This cluster does not know ClusterColocationProfiles: kubectl apply --server-side -f charts/headroom/crds"
)

Json = dict[str, Any]


async def read(api: kube.ApiServer) -> Profiles:
    """Read the profiles, as the manager does.

    Raises:
        CommandError: the cluster does not know the kind.
    """
    profiles = Profiles()
    try:
        objects, classes = await live.together(live.objects(api, PATH), live.objects(api, kube.paths.PRIORITY_CLASSES))
    except kube.ApiError as error:
        raise (CommandError(_ABSENT) if error.not_found else error) from error
    profiles.replace(objects)
    profiles.classes = {item["metadata"]["name"]: int(item["value"]) for item in classes}
    if profiles.has_patches:
        profiles.schema = PodSchema(await api.get(PROFILE_POD_SCHEMA))
    if objects:
        profiles.other_webhook = await _other_webhook(api)
    return profiles


async def _other_webhook(api: kube.ApiServer) -> str:
    """Return Koordinator's webhook configuration; empty also for a login that may not list them."""
    try:
        configurations = await live.objects(api, _WEBHOOKS)
    except kube.ApiError as error:
        if error.status != _FORBIDDEN:
            raise
        return ""
    return changes_pods_of_koordinator(configurations)


async def namespace_labels(api: kube.ApiServer, name: str) -> Mapping[str, str]:
    """Return the labels of a namespace, also of one that does not exist yet."""
    namespace = await kube.optional(api.get(f"/api/v1/namespaces/{name}"))
    return (namespace or {}).get("metadata", {}).get("labels") or {"kubernetes.io/metadata.name": name}


def obstacle(profiles: Profiles, profile: Profile) -> str:
    """Return the reason why a profile changes no pod, of its own content or of its condition; empty: it is in force."""
    reason = profiles.obstacle(profile)
    return reason.message if reason else profile_condition(profile)
