"""Our CRDs: whether they are there, whole and current, or somebody else's that drops our fields."""

from collections.abc import AsyncIterator, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding, error, info, named, ok, warning
from headroom.cli.doctor.rights import CRDS, DEFINITIONS

_PAGE: Final = "upgrade.md"
_APPLY: Final = "kubectl apply --server-side --force-conflicts -f charts/headroom/crds"
_FILES: Final = dict(zip(CRDS, ("node_metric.yaml", "elastic_quota.yaml"), strict=True))
_NEEDS: Final = dict(zip(CRDS, ("nothing can be reported", "there are no quotas"), strict=True))

Json = Mapping[str, Any]


async def check(site: Site) -> AsyncIterator[Finding]:
    """The CRDs of an installation."""
    for name in CRDS:
        found = await site.one(DEFINITIONS, name)
        if found is None:
            yield error(f"CRD {name} is not there, so {_NEEDS[name]}.", _APPLY, _PAGE)
            continue
        faults = list(judge(name, found, shipped(name)))
        for fault in faults:
            yield fault
        if not faults:
            yield ok(f"CRD {name} knows every field that Headroom writes.")


async def before(site: Site) -> AsyncIterator[Finding]:
    """CRDs that are there before an install: helm leaves these as they are."""
    for name in CRDS:
        found = await site.one(DEFINITIONS, name)
        if found is None:
            yield ok(f"CRD {name} is not there yet: the chart brings it.")
            continue
        faults = list(judge(name, found, shipped(name)))
        for fault in faults:
            yield fault
        if not faults:
            yield info(f"CRD {name} is there already and knows every field; helm leaves it as it is.", docs=_PAGE)


@cache
def shipped(name: str) -> Json:
    """The CRD that belongs to this version.

    Args:
        name: one of `CRDS`.
    """
    import yaml  # noqa: PLC0415 - only who reads YAML pays for it

    text = resources.files("crds").joinpath(_FILES[name]).read_text(encoding="utf-8")
    definition: Json = yaml.safe_load(text)
    return definition


def judge(name: str, found: Json, own: Json) -> Iterator[Finding]:
    """What is wrong with a CRD.

    Args:
        name: its name.
        found: the one in the cluster.
        own: the one that belongs to this version.
    """
    conditions = {each["type"]: each for each in (found.get("status") or {}).get("conditions") or ()}
    if found["metadata"].get("deletionTimestamp"):
        yield error(
            f"CRD {name} is being deleted, with all its objects; it is gone when the last finalizer is.",
            f"kubectl wait --for=delete crd/{name} --timeout=10m && {_APPLY}",
            _PAGE,
        )
        return
    if (conditions.get("Established") or {}).get("status") != "True":
        why = "; ".join(str(each.get("message")) for each in conditions.values() if each.get("status") == "False")
        yield error(f"CRD {name} is not in force: {why or 'not established yet'}.", _APPLY, _PAGE)
        return
    wanted = _storage(own)
    version = next((each for each in found["spec"]["versions"] if each["name"] == wanted["name"]), None)
    if version is None or not version.get("served"):
        yield error(f"CRD {name} does not serve version {wanted['name']}.", _APPLY, _PAGE)
        return
    if "status" not in (version.get("subresources") or {}):
        yield error(f"CRD {name} has no status subresource, which the reports are written to.", _APPLY, _PAGE)
    lost = sorted(missing(_schema(wanted), _schema(version)))
    if lost:
        yield warning(
            f"CRD {name} is not the one of this version, perhaps another product's or an older one: the API server "
            f"drops {named(lost)}.",
            _APPLY,
            _PAGE,
            lost,
        )


def _storage(definition: Json) -> Json:
    found: Json = next(each for each in definition["spec"]["versions"] if each.get("storage"))
    return found


def _schema(version: Json) -> Json:
    found: Json = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return found


def missing(wanted: Json, found: Json, path: str = "") -> Iterator[str]:
    """Fields of one schema that another does not know, the outermost of each branch: the API server drops those.

    Args:
        wanted: the schema whose fields are asked for.
        found: the schema of the cluster.
        path: where we are.
    """
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
