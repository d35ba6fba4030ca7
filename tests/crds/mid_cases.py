"""The cases of mid_translation.yaml as pods of the API, and random pods."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from crds.names import MID_CPU, MID_MEMORY
from crds.quantity import parse_quantity

Json = dict[str, Any]
KINDS: Final = ("containers", "initContainers")
POD_FIELDS: Final = ("priorityClassName", "runtimeClassName", "overhead", "resources")
PARTS: Final = ("requests", "limits", "restartPolicy")


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    row: str
    pod: Json
    becomes: Json
    """The fields of `pod` after the translation."""
    warning: str = ""
    priority: int | None = None

    def as_sent(self) -> Json:
        return expanded(self.pod)

    def as_defaulted(self) -> Json:
        """The pod with the number that an API server reads from the PriorityClass."""
        pod = self.as_sent()
        if self.priority is not None:
            pod["spec"]["priority"] = self.priority
        return pod


def expanded(short: Mapping[str, Any]) -> Json:
    """Write a pod of the file as the API has it."""
    spec: Json = {name: short[name] for name in POD_FIELDS if name in short}
    for kind in KINDS:
        containers = [
            {"name": f"{kind[0]}{row}", "image": "none", **_container(container)}
            for row, container in enumerate(short.get(kind, ()))
        ]
        spec |= {kind: containers} if containers else {}
    metadata = {"name": "p", "labels": short.get("labels", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _container(short: Mapping[str, Any]) -> Json:
    resources = {kind: short[kind] for kind in ("requests", "limits") if kind in short}
    fields = {name: content for name, content in short.items() if name not in resources}
    return {**fields, "resources": resources} if resources else fields


def shortened(pod: Mapping[str, Any]) -> Json:
    """Return the fields of a pod that the file has."""
    spec = pod["spec"]
    short: Json = {name: spec[name] for name in POD_FIELDS if spec.get(name)}
    for kind in KINDS:
        containers = [{**container, **container.get("resources", {})} for container in spec.get(kind, ())]
        short |= {kind: [{part: c[part] for part in PARTS if c.get(part)} for c in containers]} if containers else {}
    if labels := pod["metadata"].get("labels"):
        short["labels"] = labels
    return short


def exact(short: Mapping[str, Any]) -> Json:
    """Return a short pod with its amounts as numbers: API servers write 2000 as 2k."""

    def numbers(part: Mapping[str, Any]) -> Json:
        return {
            name: {key: parse_quantity(amount) for key, amount in content.items()}
            if name in {"requests", "limits", "overhead"}
            else content
            for name, content in part.items()
        }

    return {**numbers(short), **{kind: [numbers(c) for c in short[kind]] for kind in KINDS if kind in short}}


def cases() -> list[Case]:
    entries = yaml.safe_load(Path(__file__).with_name("mid_translation.yaml").read_text())
    return [Case(**{"becomes": entry["pod"], **entry}) for entry in entries]


AMOUNTS: Final = {
    "cpu": ("0", "1m", "100m", "0.5", "1500m", "2", 3, "1e3", "10n"),
    "memory": ("0", "1", "1500m", "64Mi", "1.5Gi", "100M", 4096, "1e9", "2Ti"),
    MID_CPU: ("0", "1", "500", "2k", 700),
    MID_MEMORY: ("0", "1024", "64Mi", "1Gi", "0.5Gi"),
    "ephemeral-storage": ("1Gi",),
    "hugepages-2Mi": ("2Mi",),
}
CLASSES: Final[tuple[Json, ...]] = ({}, {}, {"priorityClassName": "koord-mid"}, {"priorityClassName": "koord-prod"})


def random_pod(choices: random.Random) -> Json:
    """Return a pod of up to five containers with any amounts, some of which an API server rejects."""

    def amounts() -> Json:
        names = choices.sample(sorted(AMOUNTS), choices.randrange(5))
        return {name: choices.choice(AMOUNTS[name]) for name in names}

    def containers(most: int, least: int = 0) -> list[Json]:
        return [
            {part: amounts() for part in ("requests", "limits") if choices.random() < 0.7}
            for _ in range(choices.randint(least, most))
        ]

    short: Json = {"containers": containers(3, 1), "initContainers": containers(2), **choices.choice(CLASSES)}
    if choices.random() < 0.1:
        short["resources"] = {"requests": amounts()}
    return expanded(short)
