"""`kubectl headroom profile explain` and `profile list`: read, evaluate, print."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from crds.cluster_colocation_profile import ClusterColocationProfile
from crds.mid_translation import to_mid
from crds.names import LABEL_TIER
from crds.priority import requests_mid
from headroom import kube
from headroom.cluster.pod import is_terminal
from kubectl_headroom import live, table
from kubectl_headroom import output as outputs
from kubectl_headroom.profile import reading
from kubectl_headroom.simulate.pod_file import GivenPod, PodFile
from kubectl_headroom.table import Cell, Column
from manager.api import Profile, Profiles, excluded_namespaces

KIND: Final = "ProfileExplanation"
_LIST: Final = (
    Column("NAME"),
    Column("PRIORITYCLASS"),
    Column("QOS"),
    Column("IN FORCE"),
    Column("PODS", ">"),
    Column("MID", ">"),
    Column("WHY NOT", wide=True),
)
_MATCHES: Final = (Column("PROFILE"), Column("MATCHES"), Column("WHY"))
_METADATA: Final = ("labels", "annotations")

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Match:
    """The relation of a profile to a pod."""

    name: str
    matches: bool
    why: str


@dataclass(frozen=True, slots=True)
class PodChange:
    """A pod before and after its admission."""

    title: str
    matches: tuple[Match, ...]
    before: Json
    after: Json
    warnings: tuple[str, ...]


async def profiles(api: kube.ApiServer, output: str, *, headers: bool = True) -> None:
    """Print the profiles, with the numbers of running pods that each matches, and of Mid pods among these.

    Args:
        api: the cluster.
        output: one of `kubectl_headroom.output.CHOICES`.
        headers: whether the table has its titles.
    """
    known, namespaces, (pods, _) = await live.together(
        reading.read(api), live.objects(api, "/api/v1/namespaces"), api.list(kube.paths.PODS, keep=_reduced)
    )
    labels = {item["metadata"]["name"]: item["metadata"].get("labels") or {} for item in namespaces}
    rows = [_counted(known, profile, labels, pods) for profile in known.all().values()]
    if not outputs.is_for_people(output):
        outputs.show(outputs.listed(ClusterColocationProfile.KIND, rows), output, headers=headers)
    elif not rows:
        outputs.nothing()
    else:
        table.write(_LIST, [_cells(row) for row in rows], wide=output == outputs.WIDE, headers=headers)


async def explain_pod(api: kube.ApiServer, namespace: str | None, name: str, headroom: str, output: str) -> None:
    """Print the profiles that match a pod of the cluster, and their changes if it were created now.

    Args:
        api: the cluster.
        namespace: of the pod; None: that of the login's context.
        name: of the pod.
        headroom: namespace of Headroom, in which no profile applies.
        output: one of `kubectl_headroom.output.CHOICES`.
    """
    where = live.namespace_of(api, namespace)
    pod = await api.get(kube.paths.pod(where, name))
    await _explain(api, [GivenPod(f"Pod {where}/{name}", dict(pod))], headroom, output)


async def explain_file(api: kube.ApiServer, file: PodFile, namespace: str | None, headroom: str, output: str) -> None:
    """Print the profiles that match the pods of a file, and their changes; see `explain_pod`."""
    await _explain(api, file.pods(live.namespace_of(api, namespace)), headroom, output)


async def _explain(api: kube.ApiServer, pods: list[GivenPod], headroom: str, output: str) -> None:
    state = await reading.read(api)
    results = [
        change(state, given, await reading.namespace_labels(api, given.pod["metadata"]["namespace"]), headroom)
        for given in pods
    ]
    if not outputs.is_for_people(output):
        items = [as_json(result) for result in results]
        outputs.show({"kind": KIND, **items[0]} if len(items) == 1 else outputs.listed(KIND, items), output)
        return
    for index, result in enumerate(results):
        outputs.line("\n" * bool(index) + result.title)
        rows = [[Cell(match.name), Cell("yes" if match.matches else "no"), Cell(match.why)] for match in result.matches]
        table.write(_MATCHES, rows)
        for line in _difference(result):
            outputs.line(line)
        for warning in result.warnings:
            outputs.line(f"Warning: {warning}")


def change(known: Profiles, given: GivenPod, namespace_labels: Mapping[str, str], headroom: str) -> PodChange:
    """Apply the rule of Mid namespaces and the profiles to a pod.

    Args:
        known: the profiles.
        given: the pod.
        namespace_labels: labels of its namespace.
        headroom: namespace of Headroom.
    """
    before = _shown(given.pod)
    pod, warnings, excluded = before, list[str](), given.pod["metadata"]["namespace"] in excluded_namespaces(headroom)
    is_mid_namespace = namespace_labels.get(LABEL_TIER) == "mid" and not excluded
    matches = [Match(f"{LABEL_TIER}=mid", is_mid_namespace, "" if is_mid_namespace else "label of the namespace")]
    if is_mid_namespace:
        translation = to_mid(pod)
        pod, warnings = translation.pod, [*translation.warnings]
    for profile in known.all().values():
        excluded_reason = "no profile applies in this namespace" if excluded else ""
        why = excluded_reason or _why_not(known, profile, pod, namespace_labels)
        share = "" if profile.changes_all else f"changes {profile.percent} % of the pods that it matches"
        matches.append(Match(profile.name, not why, why or share))
        if not why:
            translation = known.apply(profile.name, pod)
            pod = translation.pod
            warnings += translation.warnings
    return PodChange(given.title, tuple(matches), before, pod, tuple(dict.fromkeys(warnings)))


def _why_not(known: Profiles, profile: Profile, pod: Json, namespace_labels: Mapping[str, str]) -> str:
    if reason := reading.obstacle(known, profile):
        return f"not in force: {reason}"
    labels = pod["metadata"].get("labels") or {}
    if selector := profile.mismatch(labels, namespace_labels):
        present = namespace_labels if selector == "namespaceSelector" else labels
        shown = ", ".join(f"{name}={value}" for name, value in sorted(present.items())) or "none"
        return f"spec.{selector} does not select labels {shown}"
    return "spec.probability is 0" if not profile.percent else ""


def as_json(result: PodChange) -> dict[str, Any]:
    """Return an explanation for programs: fields are added, never renamed or removed."""
    return {
        "pod": result.title,
        "profiles": [{"name": match.name, "matches": match.matches, "why": match.why} for match in result.matches],
        "before": result.before,
        "after": result.after,
        "warnings": list(result.warnings),
    }


def _difference(result: PodChange) -> list[str]:
    if result.before == result.after:
        return ["The pod is unchanged."]
    before, after = (
        yaml.safe_dump(dict(pod), sort_keys=True, allow_unicode=True).splitlines()
        for pod in (result.before, result.after)
    )
    return list(difflib.unified_diff(before, after, "before", "after", lineterm=""))


def _shown(pod: Json) -> Json:
    """Return the fields of a pod that profiles read and change."""
    metadata = {name: pod["metadata"][name] for name in _METADATA if pod["metadata"].get(name)}
    return {"metadata": metadata, "spec": pod["spec"]}


def _reduced(pod: Json) -> tuple[str, Mapping[str, str], bool] | None:
    """Return the namespace and the labels of a pod, and whether it is Mid; None: it has ended."""
    if is_terminal(pod):
        return None
    return str(pod["metadata"]["namespace"]), pod["metadata"].get("labels") or {}, requests_mid(pod)


def _counted(known: Profiles, profile: Profile, labels: Mapping[str, Json], pods: list[Any]) -> dict[str, Any]:
    matching = [
        is_mid
        for namespace, own, is_mid in filter(None, pods)
        if not profile.faults and not profile.mismatch(own, labels.get(namespace, {}))
    ]
    why = reading.obstacle(known, profile)
    return {
        "metadata": {"name": profile.name},
        "priorityClassName": profile.spec.priority_class_name,
        "qosClass": profile.spec.qos_class,
        "inForce": not why,
        "reason": why,
        "pods": len(matching),
        "midPods": sum(matching),
    }


def _cells(row: Mapping[str, Any]) -> list[Cell]:
    return [
        Cell(row["metadata"]["name"]),
        Cell(row["priorityClassName"] or "-"),
        Cell(row["qosClass"] or "-"),
        Cell("yes" if row["inForce"] else "no", "" if row["inForce"] else "red"),
        Cell(str(row["pods"])),
        Cell(str(row["midPods"])),
        Cell(row["reason"]),
    ]
