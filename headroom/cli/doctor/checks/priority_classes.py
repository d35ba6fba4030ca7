"""The PriorityClasses by which pods say which band they belong to."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

from crds.priority import VALUES, PriorityBand, band_of_value
from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding, error, info, named, ok, warning
from headroom.cli.doctor.installed import upgrade
from headroom.cli.doctor.objects import name
from headroom.cli.doctor.rights import PRIORITY_CLASSES

_PAGE: Final = "install.md"


async def check(site: Site) -> AsyncIterator[Finding]:
    """Each band has its class, and each class the value of its band."""
    found = {name(each): each for each in await site.every(PRIORITY_CLASSES)}
    absent = [str(band) for band in VALUES if band not in found]
    again = upgrade(site, "priorityClasses.create=true")
    if absent:
        yield warning(
            f"There is no PriorityClass {named(absent)}; pods that name a missing class are refused.",
            again,
            _PAGE,
            absent,
        )
    odd = list(_odd(found, f" && {again}"))
    for each in odd:
        yield each
    if not absent and not odd:
        yield ok(f"PriorityClasses {named([str(band) for band in VALUES])} have the values of their bands.")


async def before(site: Site) -> AsyncIterator[Finding]:
    """Before an install only those that are there can be wrong: the chart brings the others, and leaves these."""
    found = {name(each): each for each in await site.every(PRIORITY_CLASSES)}
    odd = list(_odd(found))
    for each in odd:
        yield each
    if not odd:
        yield ok("No PriorityClass stands in the way of those of the chart.")


def _odd(found: Mapping[str, Mapping[str, Any]], then: str = "") -> Iterator[Finding]:
    """Classes whose values are of another band, and a default that puts every pod into one.

    Args:
        found: the classes by their names.
        then: what makes a class anew once it is deleted, to follow that command.
    """
    for band, (low, high) in VALUES.items():
        value = int(found[band].get("value") or 0) if band in found else None
        if value is not None and band_of_value(value) != band:
            yield error(
                f"PriorityClass {band} has value {value}, which is not of its band ({low} to {high}), so that its pods "
                "count as others. The value of a class cannot be changed, so it has to be made anew.",
                f"kubectl delete priorityclass {band}{then}",
                _PAGE,
            )
    eager = [str(band) for band in VALUES if band != PriorityBand.PROD and _preempts(found.get(band))]
    if eager:
        yield warning(
            f"Pods of PriorityClass {named(eager)} have others evicted, those without a class among them, and whoever "
            "may make pods may name a class. preemptionPolicy cannot be changed, so it has to be made anew; pods that "
            "run keep what they have.",
            f"kubectl delete priorityclass {' '.join(eager)}{then}",
            "security.md",
            eager,
        )
    for each in found.values():
        band = band_of_value(int(each.get("value") or 0))
        if each.get("globalDefault") and band:
            yield info(f"Pods without a class get PriorityClass {name(each)}, so all of them count to {band}.")


def _preempts(priority_class: Mapping[str, Any] | None) -> bool:
    return priority_class is not None and priority_class.get("preemptionPolicy") != "Never"
