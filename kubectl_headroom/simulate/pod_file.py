"""Pods in a file: manifests of pods, and of workloads with a template."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from kubectl_headroom.errors import USAGE, CommandError

STDIN: Final = "-"  # standard input
TEMPLATE_AT: Final[Mapping[str, tuple[str, ...]]] = {
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""Where a kind has the template of its pods."""

_ENDINGS: Final = (".yaml", ".yml", ".json")

Json = dict[str, Any]


class _Loader(yaml.SafeLoader):
    """Reads times as texts, as Kubernetes does."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class GivenPod:
    """A pod to simulate."""

    title: str  # how the output calls it: "Pod default/web", "Deployment default/web"
    pod: Json  # the pod's JSON


def is_file(text: str) -> bool:
    """Return whether an argument means a file rather than the name of a pod: it exists, or looks like one."""
    try:
        return text == STDIN or "/" in text or text.endswith(_ENDINGS) or Path(text).is_file()
    except (OSError, ValueError):  # a null byte, or longer than a name may be
        return False


@dataclass(frozen=True, slots=True)
class PodFile:
    """Objects of a file."""

    place: str  # how messages call it
    objects: tuple[Json, ...]  # the decoded objects

    def pods(self, namespace: str) -> list[GivenPod]:
        """The pods, in order; objects of other kinds beside them are ignored.

        Args:
            namespace: of pods that name none.

        Raises:
            CommandError: there is no pod, or one that has no spec with containers.
        """
        listed = [(number, item) for number, item in enumerate(self.objects) if _makes_pods(item)]
        if not listed:
            kinds = sorted({str(item.get("kind") or "an object without kind") for item in self.objects})
            held, known = ", ".join(kinds) or "nothing", ", ".join(("Pod", *TEMPLATE_AT))
            raise CommandError(f"{self.place} holds {held}, and no pod. Understood are {known}.", USAGE)
        return [_given(item, number, namespace, self.place) for number, item in listed]


def load(source: str) -> PodFile:
    """Read a file.

    Args:
        source: path of a YAML or JSON file of one or several documents or a List, or "-" for standard input.

    Raises:
        CommandError: it cannot be read, or is neither.
    """
    place = "standard input" if source == STDIN else source
    try:
        text = sys.stdin.read() if source == STDIN else Path(source).read_text(encoding="utf-8")
        documents = list(yaml.load_all(text, _Loader))
    except UnicodeDecodeError as error:
        raise CommandError(f"{place} is not a text: {error}", USAGE) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise CommandError(f"{place} is neither YAML nor JSON: {' '.join(str(error).split())}", USAGE) from error
    except (OSError, ValueError) as error:  # ValueError: a date that no calendar has, a null byte in the path
        reason = getattr(error, "strerror", None) or error
        raise CommandError(f"{place} cannot be read: {reason}", USAGE) from error
    return PodFile(place, tuple(_objects(documents)))


def read(source: str, namespace: str) -> list[GivenPod]:
    """The pods of a file, see `load` and `PodFile.pods`.

    Raises:
        CommandError: it cannot be read, or holds no pod that can be understood.
    """
    return load(source).pods(namespace)


def _objects(documents: list[Any]) -> Iterator[Json]:
    for document in documents:
        if not isinstance(document, dict):
            continue
        items = document.get("items")
        kind = str(document.get("kind"))
        if kind.endswith("List") and isinstance(items, list):
            # The API server omits the kind in its own lists: a PodList has Pods.
            of_list = {"kind": kind.removesuffix("List")} if kind != "List" else {}
            yield from (of_list | item for item in items if isinstance(item, dict))
        else:
            yield document


def _makes_pods(item: Json) -> bool:
    return str(item.get("kind")) in {"Pod", *TEMPLATE_AT}


def _given(item: Json, number: int, namespace: str, place: str) -> GivenPod:
    kind, metadata = str(item["kind"]), _object(item.get("metadata"))
    name = str(metadata.get("name") or metadata.get("generateName") or "unnamed")
    where = str(metadata.get("namespace") or namespace)
    made: Any = item
    for part in TEMPLATE_AT.get(kind, ()):
        made = _object(made).get(part)
    own, spec = _object(_object(made).get("metadata")), _object(made).get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("containers"), list) or not spec["containers"]:
        path = ".".join((*TEMPLATE_AT.get(kind, ()), "spec", "containers"))
        raise CommandError(f"{place}: {kind} {name} has no {path}: a pod needs at least one container.", USAGE)
    # A pod that is simulated has not been scheduled, even if the file names a node.
    head = {**own, "name": name, "namespace": where, "uid": f"simulated-{number}"}
    if kind in TEMPLATE_AT:
        head["ownerReferences"] = [{"kind": kind, "name": name, "controller": True}]
    pod = {"metadata": head, "spec": {key: value for key, value in spec.items() if key != "nodeName"}, "status": {}}
    return GivenPod(f"{kind} {where}/{name}", pod)


def _object(value: Any) -> Json:  # noqa: ANN401 - anything a file may hold
    return value if isinstance(value, dict) else {}
