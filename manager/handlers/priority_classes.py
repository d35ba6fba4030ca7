"""The PriorityClasses of the bands, of which the leading manager creates the missing ones."""

import logging
from typing import Any, Final

from crds.priority import VALUES, PriorityBand
from headroom.kube import APPLY, ApiError, ApiServer, optional, paths
from manager.settings import PROG

_LOG: Final = logging.getLogger(__name__)
_DESCRIPTIONS: Final = {
    PriorityBand.PROD: "Prod: what Headroom protects.",
    PriorityBand.MID: "Mid: runs on what Prod pods reserve and will not use.",
    PriorityBand.BATCH: "Batch: below Mid.",
    PriorityBand.FREE: "Free: below Batch, without any promise.",
}


def priority_class(band: PriorityBand) -> dict[str, Any]:
    """Return the PriorityClass of a band, with the lowest value of the band.

    Any user with the right to create pods may name a class, so only pods of Prod preempt others.
    """
    labels = {"app.kubernetes.io/part-of": "headroom"}  # `manager.cleanup` deletes the classes with this label
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": band.value, "labels": labels},
        "value": VALUES[band][0],
        "preemptionPolicy": "PreemptLowerPriority" if band == PriorityBand.PROD else "Never",
        "description": _DESCRIPTIONS[band],
    }


async def create_missing(api: ApiServer) -> None:
    """Create the missing classes by server-side apply, because RBAC can permit that by name.

    Raises:
        ApiUnavailable: the API server does not answer, or this replica no longer leads.
    """
    for band in VALUES:
        try:
            if await optional(api.get(paths.priority_class(band.value))) is None:
                await api.patch(
                    paths.priority_class(band.value),
                    priority_class(band),
                    content_type=APPLY,
                    params={"fieldManager": PROG},
                )
                _LOG.info("PriorityClass %s: created", band.value)
        except ApiError as error:
            level = logging.DEBUG if error.conflict else logging.WARNING  # a conflict: another client has created it
            _LOG.log(level, "PriorityClass %s: not created: %s; the next leader tries again", band.value, error)
