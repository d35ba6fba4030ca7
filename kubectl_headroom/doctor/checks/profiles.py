"""ClusterColocationProfiles: faults, missing webhooks, and pods that they select which are not Mid."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from crds.priority import PriorityBand, band_of_value
from kubectl_headroom.doctor import permissions as may
from kubectl_headroom.doctor.checks.mid_pods import CREATE_AGAIN
from kubectl_headroom.doctor.cluster import Cluster
from kubectl_headroom.doctor.finding import Finding, Severity, about, count, info, named, ok, warning
from kubectl_headroom.doctor.objects import UnbandedPod, labels, name
from manager.api import Profile, excluded_namespaces, profile_condition, profile_webhook, read_profile

_EDIT: Final = "kubectl edit clustercolocationprofile {first}"

Json = Mapping[str, Any]


def check(cluster: Cluster) -> Iterator[Finding]:
    """Report profiles that change no pod, and pods that a profile should have made Mid."""
    classes = {name(item): int(item.get("value") or 0) for item in cluster.list(may.PRIORITY_CLASSES)}
    profiles = [read_profile(obj, classes, None) for obj in cluster.list(may.PROFILES)]
    if not profiles:
        yield ok("There is no ClusterColocationProfile.")
        return
    configuration = cluster.get(may.MUTATING, may.PROFILES_WEBHOOK)
    if configuration is None:
        yield info(f"Headroom reads no profiles here: there is no {may.PROFILES_WEBHOOK} (colocationProfiles.enabled).")
        return
    faults = {profile.name: fault for profile in profiles if (fault := _fault(profile))}
    for profile, fault in faults.items():
        yield warning(f"Profile {profile}: {fault}", _EDIT.replace("{first}", profile), [profile])
    written = {str(hook.get("name")) for hook in configuration.get("webhooks") or ()}
    sound = [profile for profile in profiles if profile.name not in faults and profile.percent]
    absent = sorted(profile.name for profile in sound if profile_webhook(profile.name) not in written)
    fix = f"kubectl -n {cluster.namespace} logs deployment/headroom-manager"
    message = "API servers have no webhook for {count}, which the leading manager writes: {names}."
    yield from about(Severity.WARNING, absent, message, fix, noun="profile")
    keys = sorted(_not_mid(cluster, sound, classes))
    if keys:
        message = f"{count(len(keys), 'pod')} selected by a profile of Mid, but not Mid: {named(keys)}."
        yield warning(message, CREATE_AGAIN, keys)
    if not (faults or absent or keys):
        yield ok(f"{count(len(profiles), 'profile')} in force, and every pod selected by one of Mid is Mid.")


def _fault(profile: Profile) -> str:
    """Return the first fault of a profile, or else the message of its condition; empty: it is in force."""
    return f"No pod is changed: {profile.faults[0]}." if profile.faults else profile_condition(profile)


def _not_mid(cluster: Cluster, profiles: list[Profile], classes: Mapping[str, int]) -> Iterator[str]:
    """Yield the pods of no band that a profile of Mid selects."""
    of_mid = [
        profile
        for profile in profiles
        if profile.changes_all
        and band_of_value(classes.get(profile.spec.priority_class_name or "")) == PriorityBand.MID
    ]
    namespaces = {name(item): labels(item) for item in cluster.list(may.ALL_NAMESPACES)}
    excluded = excluded_namespaces(cluster.namespace)
    for pod in cluster.list(may.ALL_PODS):
        if isinstance(pod, UnbandedPod) and pod.namespace not in excluded:
            namespace_labels = namespaces.get(pod.namespace, {})
            if any(not profile.mismatch(pod.labels, namespace_labels) for profile in of_mid):
                yield pod.key
