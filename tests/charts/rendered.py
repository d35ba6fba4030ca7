from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "charts/headroom"
NAMESPACE: Final = "headroom-system"
REGISTRY: Final = "image.registry=registry.example.com"

Json = dict[str, Any]
Helm = Callable[..., str]


@dataclass(frozen=True, slots=True)
class Rendered:
    objects: tuple[Json, ...]

    def one(self, kind: str, name: str) -> Json:
        (result,) = [obj for obj in self.objects if (obj["kind"], obj["metadata"]["name"]) == (kind, name)]
        return result

    def of_kind(self, *kinds: str) -> list[Json]:
        return [obj for obj in self.objects if obj["kind"] in kinds]

    def pods(self) -> Iterator[tuple[str, Json]]:
        """The pod specs, those of hooks and tests too, with the names of their owners."""
        for owner in self.of_kind("DaemonSet", "Deployment", "Job"):
            yield owner["metadata"]["name"], owner["spec"]["template"]["spec"]
        for pod in self.of_kind("Pod"):
            yield pod["metadata"]["name"], pod["spec"]

    def containers(self) -> Iterator[tuple[str, Json]]:
        """All containers, init containers too, as "owner/container"."""
        for owner, pod in self.pods():
            for container in [*pod.get("initContainers", ()), *pod["containers"]]:
                yield f"{owner}/{container['name']}", container

    def container(self, path: str) -> Json:
        return dict(self.containers())[path]

    def config(self, name: str, key: str) -> Any:  # noqa: ANN401 - whatever the YAML holds
        return yaml.safe_load(self.one("ConfigMap", name)["data"][key])


def render(helm: Helm, *settings: str, kube_version: str = "v1.36.2", values: Path | None = None) -> Rendered:
    """Render the chart with `--set` settings, and a registry, which it needs."""
    flags = [flag for setting in (REGISTRY, *settings) for flag in ("--set", setting)] + (
        ["-f", str(values)] if values else []
    )
    text = helm(*("template", "headroom", str(CHART), "--namespace", NAMESPACE, "--kube-version", kube_version), *flags)
    return Rendered(tuple(obj for obj in yaml.safe_load_all(text) if obj))


def rules(role: Mapping[str, Any]) -> set[tuple[str, str, str, str]]:
    """A role's rules, one tuple per grant: (group, resource, verb, names)."""
    return {
        (group, resource, verb, ",".join(rule.get("resourceNames", ())))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
