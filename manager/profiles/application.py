"""The change of one pod by one profile. The order of the changes is Koordinator's."""

from collections.abc import Mapping
from typing import Any, Final

from crds.mid_translation import Translation, to_mid
from crds.names import LABEL_PRIORITY, LABEL_QOS
from crds.priority import PriorityBand, priority_class_raw, requests_mid
from manager.profiles.pod_schema import PodSchema
from manager.profiles.profile import Profile

_OF_CLASS: Final = ("priority", "preemptionPolicy")
"""Fields that the API server sets from the PriorityClass."""

Json = Mapping[str, Any]


def apply(profile: Profile, pod: Json, classes: Mapping[str, int], schema: PodSchema | None) -> Translation:
    """Change a pod by a profile without faults, and translate its resources if the result is Mid.

    Args:
        profile: the profile; its selectors match.
        pod: the pod.
        classes: name of each PriorityClass -> its value.
        schema: the schema of pods, for a profile with a patch.

    Returns:
        The changed pod; the very same object if the profile changes nothing or leaves it unchanged, with a reason.
    """
    changed = _scheduled(profile, _labelled(profile, pod))
    if profile.spec.patch is not None and schema is not None:
        changed = schema.patched(changed, profile.spec.patch)
    changed = _numbered(changed, pod, classes)
    band, warnings = priority_class_raw(changed), tuple[str, ...]()
    if band == PriorityBand.MID:
        translation = to_mid(changed)
        if translation.obstacle:
            return Translation(pod, (f"profile {profile.name}: {translation.warnings[0]}",), translation.obstacle)
        changed, warnings = translation.pod, translation.warnings
    elif requests_mid(changed) and band:
        reason = f"the pod requests Mid resources, and the profile makes it {band}"
        return Translation(pod, (f"profile {profile.name}: the pod is left unchanged: {reason}",), reason)
    elif band in {PriorityBand.BATCH, PriorityBand.FREE}:
        warnings = (f"profile {profile.name}: the pod is {band}; Headroom translates resources of Mid pods alone",)
    changed = _without_fields_of_class(changed, pod)
    return Translation(pod if changed == pod else changed, warnings)


def _labelled(profile: Profile, pod: Json) -> Json:
    spec, metadata = profile.spec, pod.get("metadata") or {}
    labels, annotations = dict(metadata.get("labels") or {}), dict(metadata.get("annotations") or {})
    labels |= spec.labels or {}
    annotations |= spec.annotations or {}
    for texts, mapping in ((labels, spec.label_keys_mapping), (annotations, spec.annotation_keys_mapping)):
        for source, target in (mapping or {}).items():
            texts[target] = texts.get(source, "")  # as Koordinator does for an absent one
    for name, suffix in (spec.label_suffixes or {}).items():
        if name in labels and not labels[name].endswith(suffix):  # the second review of a pod adds nothing
            labels[name] += suffix
    if spec.qos_class:
        labels[LABEL_QOS] = spec.qos_class
    if spec.koordinator_priority is not None:
        labels[LABEL_PRIORITY] = str(spec.koordinator_priority)
    return {**pod, "metadata": _with(_with(metadata, "labels", labels), "annotations", annotations)}


def _with(metadata: Json, name: str, texts: dict[str, str]) -> Json:
    return {**metadata, name: texts} if texts else metadata


def _scheduled(profile: Profile, pod: Json) -> Json:
    named = {
        "schedulerName": profile.spec.scheduler_name,
        "priorityClassName": profile.spec.priority_class_name,
    }
    return {**pod, "spec": {**(pod.get("spec") or {}), **{name: value for name, value in named.items() if value}}}


def _class_differs(changed: Json, pod: Json) -> bool:
    return bool(changed["spec"].get("priorityClassName") != (pod.get("spec") or {}).get("priorityClassName"))


def _numbered(changed: Json, pod: Json, classes: Mapping[str, int]) -> Json:
    """Give a pod with another PriorityClass its number, from which the band follows."""
    if not _class_differs(changed, pod):
        return changed
    spec = {name: content for name, content in changed["spec"].items() if name not in _OF_CLASS}
    value = classes.get(str(spec.get("priorityClassName")))
    return {**changed, "spec": spec if value is None else {**spec, "priority": value}}


def _without_fields_of_class(changed: Json, pod: Json) -> Json:
    """Drop the number of another PriorityClass: the API server sets it, and rejects another one."""
    if not _class_differs(changed, pod):
        return changed
    return {**changed, "spec": {name: content for name, content in changed["spec"].items() if name not in _OF_CLASS}}
