"""The answers for a login that may not read the whole cluster, such as a tenant's with ClusterRole `view`."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from crds.elastic_quota import GROUP, PLURAL, VERSION
from headroom import kube
from kubectl_headroom.table import Cell, Column, Row

QUOTA_COLUMNS: Final = (
    Column("NAMESPACE"),
    Column("NAME"),
    Column("RESOURCE"),
    Column("MIN", ">"),
    Column("USED", ">"),
    Column("MAX", ">"),
)
ROLE: Final = "A ClusterRoleBinding to headroom-tenant grants nodes, NodeMetrics and quotas; pods of others need more."
FORBIDDEN: Final = 403
ALL_PODS: Final = "Pods of all namespaces"  # a kind that may be denied
_T = TypeVar("_T")
Json = Mapping[str, Any]


@dataclass(slots=True)
class Denied:
    """The kinds that this login may not read."""

    kinds: list[str] = field(default_factory=list)

    async def unless(self, kind: str, request: Awaitable[_T], instead: _T) -> _T:
        """Return the result of a read, or another value and remember the kind where the read is forbidden.

        Raises:
            ApiError, ApiUnavailable: the read failed for another reason.
        """
        try:
            return await request
        except kube.ApiError as error:
            if error.status != FORBIDDEN:
                raise
            self.kinds.append(kind)
            return instead

    def __contains__(self, kind: str) -> bool:
        return kind in self.kinds

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def note(self, consequence: str) -> str:
        """Return a sentence with the kinds, the consequence and the remedy."""
        kinds = list(dict.fromkeys(self.kinds))
        named = " and ".join([", ".join(kinds[:-1]), kinds[-1]] if len(kinds) > 1 else kinds)
        return f"This login may not list {named}: {consequence}. {ROLE}"


async def quotas(api: kube.ApiServer, namespace: str) -> list[Json]:
    """Return the ElasticQuotas of a namespace; none where they may not be read, or are not defined."""
    try:
        items, _ = await api.list(f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}")
    except kube.ApiError:
        return []
    return list(items)


def quota_rows(objects: Sequence[Json]) -> list[Row]:
    """Rows of `QUOTA_COLUMNS`, as the quotas' own status has them."""
    rows = list[Row]()
    for quota in objects:
        metadata, amounts = quota.get("metadata") or {}, _amounts(quota)
        for resource in sorted({name for part in amounts for name in part}):
            of_quota = (metadata.get("namespace"), metadata.get("name"), resource)
            rows.append([Cell(str(text)) for text in (*of_quota, *(part.get(resource, "-") for part in amounts))])
    return rows


def quotas_as_json(objects: Sequence[Json], note: str) -> dict[str, Any]:
    """Return the quotas for programs: a QuotaReport without the amounts that need the whole cluster."""
    listed = []
    for quota in objects:
        bounds, used, most = _amounts(quota)
        resources = [
            {"resource": name, "min": bounds.get(name), "used": used.get(name), "max": most.get(name)}
            for name in sorted({*bounds, *used, *most})
        ]
        names = {name: quota["metadata"].get(name) for name in ("namespace", "name")}
        listed.append({**names, "resources": resources})
    return {"kind": "QuotaReport", "version": 1, "quotas": listed, "notes": [note]}


def quota_sentences(objects: Sequence[Json]) -> list[str]:
    """Return a sentence for each quota: "ElasticQuota shop/q (its status): cpu 3 in use of min 2, max 4."."""
    return [
        f"ElasticQuota {row[0].text}/{row[1].text} by its status: {row[2].text} {row[4].text} in use, "
        f"min {row[3].text}, max {row[5].text}."
        for row in quota_rows(objects)
    ]


def _amounts(quota: Json) -> tuple[Json, Json, Json]:
    """Return min, used and max."""
    spec, status = quota.get("spec") or {}, quota.get("status") or {}
    return spec.get("min") or {}, status.get("used") or {}, spec.get("max") or {}
