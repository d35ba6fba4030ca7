"""Our CRDs: whether they are there, whole and current, or another product's that drop our fields."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from kubectl_headroom.doctor.cluster import Cluster
from kubectl_headroom.doctor.finding import Finding, Severity, about, error, info, ok
from kubectl_headroom.doctor.permissions import CRDS, DEFINITIONS

_APPLY: Final = "kubectl apply --server-side --force-conflicts -f charts/headroom/crds"
_FILES: Final = dict(
    zip(CRDS, ("node_metric.yaml", "elastic_quota.yaml", "cluster_colocation_profile.yaml"), strict=True)
)
_CONSEQUENCES: Final = dict(
    zip(CRDS, ("nothing can be reported", "there are no quotas", "there are no profiles"), strict=True)
)

Json = Mapping[str, Any]


def check(cluster: Cluster) -> Iterator[Finding]:
    """The CRDs of an installation; those that are there before an install helm leaves as they are."""
    for name in CRDS:
        result = cluster.get(DEFINITIONS, name)
        if result is None and cluster.preflight:
            yield ok(f"CRD {name} is not there yet: the chart brings it.")
        elif result is None:
            severity = Severity.WARNING if name == CRDS[2] else Severity.ERROR
            yield Finding(severity, f"CRD {name} is not there, so {_CONSEQUENCES[name]}.", _APPLY)
        elif faults := list(_faults(name, result, shipped(name))):
            yield from faults
        elif cluster.preflight:
            message = f"CRD {name} exists and knows every field; helm does not change it."
            yield info(message, docs="upgrade.md")
        else:
            yield ok(f"CRD {name} knows every field that Headroom writes.")


@cache
def shipped(name: str) -> Json:
    """The CRD of this version, by one of the names `CRDS`."""
    import yaml  # noqa: PLC0415 - only readers of YAML pay for it

    definition: Json = yaml.safe_load(resources.files("crds").joinpath(_FILES[name]).read_text(encoding="utf-8"))
    return definition


def _faults(name: str, found: Json, own: Json) -> Iterator[Finding]:
    """Return the faults of a CRD of the cluster, compared with that of this version."""
    conditions = {condition["type"]: condition for condition in (found.get("status") or {}).get("conditions") or ()}
    wanted = next(version for version in own["spec"]["versions"] if version.get("storage"))
    version = next((version for version in found["spec"]["versions"] if version["name"] == wanted["name"]), None)
    if found["metadata"].get("deletionTimestamp"):
        yield error(
            f"CRD {name} is being deleted, with all its objects; it is gone when the last finalizer is.",
            f"kubectl wait --for=delete crd/{name} --timeout=10m && {_APPLY}",
        )
    elif (conditions.get("Established") or {}).get("status") != "True":
        why = "; ".join(
            str(condition.get("message")) for condition in conditions.values() if condition.get("status") == "False"
        )
        yield error(f"CRD {name} is not in force: {why or 'not established yet'}.", _APPLY)
    elif version is None or not version.get("served"):
        yield error(f"CRD {name} does not serve version {wanted['name']}.", _APPLY)
    else:
        if "status" not in (version.get("subresources") or {}):
            yield error(f"CRD {name} has no status subresource, which the reports are written to.", _APPLY)
        yield from about(
            Severity.INFO if name == CRDS[2] else Severity.WARNING,  # profiles work with Koordinator's definition
            sorted(missing(_schema(wanted), _schema(version))),
            f"CRD {name} is not the one of this version, perhaps another product's or an older one: the API server "
            "drops {names}.",
            _APPLY,
        )


def _schema(version: Json) -> Json:
    result: Json = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return result


def missing(wanted: Json, found: Json, path: str = "") -> Iterator[str]:
    """Fields of one schema that another does not know, the outermost of each branch: the API server drops those."""
    if found.get("x-kubernetes-preserve-unknown-fields"):
        return
    for key, part in (wanted.get("properties") or {}).items():
        here = f"{path}.{key}".lstrip(".")
        other = (found.get("properties") or {}).get(key)
        if other is None:
            if path or key not in ("apiVersion", "kind", "metadata"):
                yield here
        else:
            yield from missing(part, other, here)
    if isinstance(wanted.get("items"), Mapping):
        yield from missing(wanted["items"], found.get("items") or {}, f"{path}[]")
    extra, known = wanted.get("additionalProperties"), found.get("additionalProperties")
    if isinstance(extra, Mapping) and known is not True:
        if isinstance(known, Mapping):
            yield from missing(extra, known, f"{path}.*")
        else:
            yield f"{path}.*"
