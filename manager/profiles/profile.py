"""A ClusterColocationProfile as it was read, with its faults."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from crds.cluster_colocation_profile import ClusterColocationProfile, ClusterColocationProfileSpec
from crds.codec import CodecError, from_json
from crds.priority import QoS
from headroom.cluster.selector import matches
from manager.config import selector
from manager.config.findings import ConfigFinding, nearest, shown
from manager.profiles.pod_schema import PodSchema

IN_FORCE: Final = "InForce"
"""The condition of a profile."""
_PERCENT: Final = re.compile(r"(\d{1,3})%?", re.ASCII)
_WHOLE: Final = 100
_QOS: Final = tuple(qos.value for qos in QoS if qos)
_MOST_NAMES: Final = 10

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile; one with faults changes no pod."""

    name: str
    uid: str = ""
    generation: int | None = None
    spec: ClusterColocationProfileSpec = field(default_factory=ClusterColocationProfileSpec)
    faults: tuple[ConfigFinding, ...] = ()
    conditions: tuple[Json, ...] = ()
    """The conditions of its status."""

    @property
    def percent(self) -> int:
        """The share of the matching pods that it changes. [percent]"""
        return _percent(self.spec.probability)

    @property
    def changes_all(self) -> bool:
        """Return whether it changes every matching pod, not a share of them."""
        return self.percent == _WHOLE

    @property
    def condition(self) -> Json:
        """The condition `InForce` of its status; empty without it."""
        return next((known for known in self.conditions if known.get("type") == IN_FORCE), {})

    def mismatch(self, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> str:
        """Return the selector that does not match a pod with these labels; empty: the profile matches."""
        for name, part, present in (
            ("namespaceSelector", self.spec.namespace_selector, namespace_labels),
            ("selector", self.spec.selector, labels),
        ):
            if part is not None and not matches(selector_json(part), present):
                return name
        return ""


def condition_message(profile: Profile) -> str:
    """Return the message of a condition by which the manager reports that a profile changes no pod; empty: none."""
    condition = profile.condition
    is_current = condition.get("observedGeneration") == profile.generation
    return str(condition.get("message") or "") if condition.get("status") == "False" and is_current else ""


def read(obj: Json, classes: Mapping[str, int] | None, schema: PodSchema | None) -> Profile:
    """Read a profile of any content, with its faults.

    Args:
        obj: the object.
        classes: name of each PriorityClass -> its value; None: not known, so that no class is a fault.
        schema: the schema of pods; None: not known, so that only the form of the patch is checked.
    """
    metadata, raw = obj.get("metadata") or {}, obj.get("spec") or {}
    named = Profile(str(metadata.get("name") or ""), str(metadata.get("uid") or ""), metadata.get("generation"))
    try:
        spec = from_json(ClusterColocationProfile, {"metadata": {}, "spec": raw}).spec
    except CodecError as error:
        path, _, message = str(error).partition(": ")
        return replace(named, faults=(ConfigFinding(path, message),))
    in_patch = [] if spec.patch is None or schema is None else schema.faults(spec.patch, "spec.patch")
    faults = (*_faults(spec, raw, classes), *in_patch)
    conditions = tuple((obj.get("status") or {}).get("conditions") or ())
    return replace(named, spec=spec, faults=faults, conditions=conditions)


def selector_json(part: Any) -> Json:  # noqa: ANN401 - a LabelSelector
    """Return a selector of the API as JSON, without empty parts, as API servers store it."""
    labels = dict(part.match_labels or {})
    expressions = [
        {"key": rule.key, "operator": rule.operator, **({"values": list(rule.values)} if rule.values else {})}
        for rule in part.match_expressions or ()
    ]
    return {
        **({"matchLabels": labels} if labels else {}),
        **({"matchExpressions": expressions} if expressions else {}),
    }


def _faults(
    spec: ClusterColocationProfileSpec, raw: Json, classes: Mapping[str, int] | None
) -> Iterator[ConfigFinding]:
    for name in ("namespaceSelector", "selector"):
        if raw.get(name) is not None:
            yield from selector.faults(raw[name], f"spec.{name}")
    probability = spec.probability
    if probability is not None and not (_PERCENT.fullmatch(probability) and _percent(probability) <= _WHOLE):
        message = f'must be a percentage from 0 to 100, such as 50 or "50%", got {shown(probability)}'
        yield ConfigFinding("spec.probability", message)
    yield from _label_faults(spec)
    if spec.qos_class and spec.qos_class not in _QOS:
        yield ConfigFinding("spec.qosClass", f"must be one of {', '.join(_QOS)}, got {shown(spec.qos_class)}")
    wanted = spec.priority_class_name
    if wanted and classes is not None and wanted not in classes:
        hint = nearest(wanted, classes)
        names = ", ".join(sorted(classes)[:_MOST_NAMES])
        message = f"the cluster has no PriorityClass {shown(wanted)}"
        yield ConfigFinding(
            "spec.priorityClassName", f"{message}; {f'did you mean {hint}?' if hint else f'it has {names}'}"
        )


def _label_faults(spec: ClusterColocationProfileSpec) -> Iterator[ConfigFinding]:
    """Return the faults of labels, and of names of annotations, for which the same rules hold."""
    places = [("spec.labels", name, [value]) for name, value in (spec.labels or {}).items()]
    places += [("spec.annotations", name, []) for name in spec.annotations or {}]
    for path, mapping in (
        ("spec.labelKeysMapping", spec.label_keys_mapping),
        ("spec.annotationKeysMapping", spec.annotation_keys_mapping),
    ):
        places += [(path, name, []) for pair in (mapping or {}).items() for name in pair]
    for path, name, values in places:
        yield from (ConfigFinding(where, message) for where, message in selector.label_faults(name, values, path))


def _percent(text: str | None) -> int:
    return _WHOLE if text is None else int(text.removesuffix("%"))
