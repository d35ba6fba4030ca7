"""The verdict on an edit of the ConfigMap, before it is stored."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import kopf

from manager.config.parse import review
from manager.handlers.config_map import keys_of, text_of
from manager.webhook import admission

_VALIDATOR: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="admission")
_KOPF_LOG: Final = logging.getLogger("kopf.objects")


def register(registry: kopf.OperatorRegistry) -> None:
    """Register the validation of an edit; the webhook configuration selects the edits."""
    if _is_logged_by_server not in _KOPF_LOG.filters:
        _KOPF_LOG.addFilter(_is_logged_by_server)

    @kopf.on.validate(
        "v1",
        "configmaps",
        id=admission.HANDLER,
        operations=["CREATE", "UPDATE"],
        ignore_failures=True,
        registry=registry,
    )
    async def config_map_edit(*, warnings: list[str], **given: Any) -> None:  # noqa: ANN401 - whatever kopf gives
        # A text of a megabyte takes a second, and the manager has other work, some of it in threads.
        loop = asyncio.get_running_loop()
        new = given["new"]
        result = await loop.run_in_executor(_VALIDATOR, review, text_of(new), text_of(given["old"]), keys_of(new))
        refusals = result.refusals()
        if refusals:
            raise kopf.AdmissionError(admission.folded(refusals), code=admission.UNPROCESSABLE)
        warnings += [str(warning) for warning in result.warnings]


def _is_logged_by_server(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    return not ("failed permanently" in message and f"'{admission.HANDLER}'" in message)
