"""The quotas of one namespace by their own status, for a login that may not read the whole cluster."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from crds.elastic_quota import GROUP, PLURAL, VERSION
from headroom import kube
from kubectl_headroom import output as outputs
from kubectl_headroom.quota import show
from kubectl_headroom.table import Cell, Row

COLUMNS: Final = show.COLUMNS[:6]  # up to MAX: the others need the pods of the whole cluster
Json = Mapping[str, Any]


async def read(api: kube.ApiServer, namespace: str) -> list[Json]:
    """Return the ElasticQuotas of a namespace; none where they may not be read, or are not defined."""
    try:
        items, _ = await api.list(f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}")
    except kube.ApiError:
        return []
    return list(items)


def rows(quotas: Sequence[Json]) -> list[Row]:
    """Rows of `COLUMNS`, one per quota and resource."""
    return [
        [Cell(str(quota["metadata"].get(name))) for name in ("namespace", "name")]
        + [Cell(str("-" if text is None else text)) for text in amounts.values()]
        for quota in quotas
        for amounts in _resources(quota)
    ]


def as_json(quotas: Sequence[Json], note: str) -> dict[str, Any]:
    """Return the quotas for programs: a QuotaReportList without the amounts that need the whole cluster."""
    names = [{name: quota["metadata"].get(name) for name in ("namespace", "name")} for quota in quotas]
    items = [
        {"metadata": name, **name, "resources": [*_resources(quota)]} for name, quota in zip(names, quotas, strict=True)
    ]
    return outputs.listed(show.KIND, items, notes=[note])


def sentences(quotas: Sequence[Json]) -> list[str]:
    """Return a sentence per quota and resource: "ElasticQuota shop/q by its status: cpu 3 in use, min 2, max 4."."""
    texts = ([cell.text for cell in row] for row in rows(quotas))
    return [
        f"ElasticQuota {namespace}/{name} by its status: {resource} {used} in use, min {least}, max {most}."
        for namespace, name, resource, least, used, most in texts
    ]


def _resources(quota: Json) -> Iterator[dict[str, Any]]:
    """Yield resource, min, used and max of each resource that the quota names."""
    spec, status = quota.get("spec") or {}, quota.get("status") or {}
    amounts = {"min": spec.get("min") or {}, "used": status.get("used") or {}, "max": spec.get("max") or {}}
    for resource in sorted({name for part in amounts.values() for name in part}):
        yield {"resource": resource, **{name: part.get(resource) for name, part in amounts.items()}}
