"""Server-side apply as headroom-manager; fields unknown to the cluster's CRD are left out, and that is logged once."""

import logging
from typing import Any, Final

from headroom.kube import APPLY, ApiUnavailable
from manager.context import Run
from manager.definition import DefinitionFields, undeclared_field, without_field
from manager.node_metric import APPLY_PARAMETERS

_LOG: Final = logging.getLogger(__name__)

Json = dict[str, Any]


async def apply(run: Run, path: str, body: Json) -> Json | None:
    """Apply a part of a NodeMetric.

    Args:
        run: the run.
        path: the object, or its `/status`.
        body: apiVersion, kind, metadata.name, and the fields to own.

    Returns:
        The object afterwards; `None` when the definition knows none of the fields, so that nothing was applied.

    Raises:
        ApiError: the API server refuses.
        ApiUnavailable: the API server is unavailable.
    """
    definition = run.context.state_of(DefinitionFields)
    while True:
        try:
            answer = await run.api.patch(path, body, APPLY, APPLY_PARAMETERS)
        except ApiUnavailable as error:
            unknown = undeclared_field(str(error))
            less = body if unknown is None else without_field(body, unknown)
            if unknown is None or less == body:
                raise
            _dropped(run, unknown)
            body = less
            if _is_empty(body):
                return None
        else:
            for each in definition.mark_known(body):
                _LOG.info("The cluster's NodeMetric definition knows %s now", each)
            return answer


def _is_empty(body: Json) -> bool:
    return body.keys() <= {"apiVersion", "kind", "metadata"} and body["metadata"].keys() <= {"name"}


def _dropped(run: Run, field: str) -> None:
    if run.context.state_of(DefinitionFields).mark_unknown(field, run.context.steady()):
        _LOG.warning(
            "The cluster's NodeMetric definition does not know %s, so it is left out: "
            "install Headroom's (crds/node_metric.yaml) in place of another one",
            field,
        )
