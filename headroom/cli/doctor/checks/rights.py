"""Whether each service account may do what its service does."""

from collections.abc import AsyncIterator
from typing import Any, Final

from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding, count, error, named, ok
from headroom.cli.doctor.installed import installed, upgrade
from headroom.cli.doctor.objects import SCHEDULER
from headroom.cli.doctor.rights import REVIEWS
from headroom.cli.doctor.service_accounts import KUBE_SCHEDULER, grants

_PAGE: Final = "security.md"


async def check(site: Site) -> AsyncIterator[Finding]:
    """Ask the API server about every right of every service account."""
    how = await installed(site)
    for part, granted in grants(how).items():
        wanted = [*granted, *(KUBE_SCHEDULER if part == SCHEDULER else ())]
        asked = [request for grant in wanted for request in grant.asked()]
        user = f"system:serviceaccount:{site.namespace}:{part}"
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{site.namespace}", "system:authenticated")
        answers = await site.may(REVIEWS, user, groups, asked)
        lacking = [_named(request) for request, allowed in zip(asked, answers, strict=True) if not allowed]
        if lacking:
            yield error(
                f"Service account {site.namespace}/{part} may not {named(lacking)}.",
                upgrade(site, by_hand=True),
                _PAGE,
                lacking,
            )
        else:
            yield ok(f"Service account {site.namespace}/{part} has {count(len(asked), 'right')}, all that it needs.")


def _named(request: Any) -> str:  # noqa: ANN401 - resourceAttributes
    """A right in words: "patch nodes/status", "get configmaps/slo-controller-config in headroom-system"."""
    kind = "/".join(part for part in (request["resource"], request["subresource"]) if part)
    group = f".{request['group']}" if request["group"] else ""
    called = f" {request['name']}" if request["name"] else ""
    where = f" in {request['namespace']}" if request["namespace"] else ""
    return f"{request['verb']} {kind}{group}{called}{where}"
