"""The ConfigMap: judged when it changes, told about in events, its last good text kept for the next start."""

import logging
from collections.abc import Sequence
from typing import Any, Final

import kopf

from crds.names import CONFIG_MAP_KEY
from kubeapi import ApiError, ApiServer, paths
from manager.config.findings import Finding
from manager.config.in_force import InForce, Origin, at_start, judge
from manager.context import Context, Run
from manager.settings import Settings

_LOG: Final = logging.getLogger(__name__)
_MOST_FINDINGS: Final = 8


def register(registry: kopf.OperatorRegistry, run: Run, keeper: "ConfigKeeper") -> None:
    """Tell kopf what to do when the ConfigMap changes; kopf is told elsewhere to watch no other one."""
    wanted = run.context.settings.config_name

    @kopf.on.event("v1", "configmaps", registry=registry)
    async def config_map_event(event: kopf.RawEvent, **_: Any) -> None:  # noqa: ANN401
        obj = event["object"]
        if obj["metadata"]["name"] == wanted:
            keeper.observe(None if event["type"] == "DELETED" else dict(obj))


async def load(api: ApiServer, context: Context) -> None:
    """Read the ConfigMap before anything is calculated, so that no node is judged by defaults that do not apply.

    What an earlier run of this process has in force stays so if the ConfigMap is bad.

    Raises:
        ApiError: the API server refuses.
        ApiUnavailable: it is away.
    """
    settings = context.settings
    config_map = await _read(api, settings, settings.config_name)
    kept = await _read(api, settings, settings.last_good_name)
    last_good = context.in_force.text or (None if kept is None else _text(kept))
    context.in_force = at_start(
        None if config_map is None else _text(config_map), present=config_map is not None, last_good=last_good
    )
    _show(context)


async def _read(api: ApiServer, settings: Settings, name: str) -> dict[str, Any] | None:
    try:
        return await api.get(paths.config_map(settings.namespace, name))
    except ApiError as error:
        if error.not_found:
            return None
        raise


def _text(config_map: dict[str, Any]) -> str | None:
    text = (config_map.get("data") or {}).get(CONFIG_MAP_KEY)
    return None if text is None else str(text)


def _show(context: Context) -> None:
    context.telemetry.config_valid.set(0 if context.in_force.errors else 1)
    context.telemetry.config_entries_disabled.set(len(context.in_force.entry_errors))


class ConfigKeeper:
    """Takes changes of the ConfigMap, and does in the background what they call for: events, and keeping the text.

    Args:
        run: the run it belongs to.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._told: InForce | None = None
        self._was_bad = bool(run.context.in_force.errors)
        self._kept: str | None = None
        self._seen = 0

    def observe(self, config_map: dict[str, Any] | None) -> None:
        """Judge the ConfigMap as it is now; `None` when it is gone."""
        self._seen += 1
        context = self._run.context
        before = context.in_force
        context.in_force = judge(
            before, None if config_map is None else _text(config_map), present=config_map is not None
        )
        _show(context)
        self._was_bad = self._was_bad or bool(context.in_force.errors)
        if context.in_force.config != before.config:
            self._run.everything_changed()

    async def refresh(self) -> None:
        """Read the ConfigMap again: kopf tells of no deletion that happened while its watch was down.

        Raises:
            ApiError: the API server refuses.
            ApiUnavailable: it is away.
        """
        settings, seen = self._run.context.settings, self._seen
        config_map = await _read(self._run.api, settings, settings.config_name)
        if seen == self._seen:  # else the watch has told of something newer meanwhile
            self.observe(config_map)

    async def catch_up(self) -> None:
        """Tell of the configuration and keep its text, if this replica leads and has not done so yet.

        Raises:
            ApiError: the API server refuses.
            ApiUnavailable: it is away.
        """
        if not self._run.leader.leads:
            self._kept = None
            return
        now = self._run.context.in_force
        if self._told != now:
            self._told = now
            await self._tell(now)
        if not now.errors and self._kept != now.text:
            await self._keep(now.text)
            self._kept = now.text

    async def _tell(self, now: InForce) -> None:
        settings = self._run.context.settings
        if not now.present:
            if now.removed:
                await self._event(
                    "Warning",
                    "ColocationConfigDeleted",
                    "the ConfigMap is gone: the defaults apply, and colocation is disabled",
                )
            else:
                _LOG.info(
                    "There is no ConfigMap %s in %s: the defaults apply", settings.config_name, settings.namespace
                )
            return
        if now.errors:
            what = "the defaults apply" if now.origin is Origin.DEFAULTS else "the last good one stays in force"
            await self._event("Warning", "ColocationConfigInvalid", f"{what}. {_sentences(now.errors)}")
            return
        if self._was_bad:
            self._was_bad = False
            await self._event("Normal", "ColocationConfigApplied", "the ConfigMap is valid again and in force")
        if now.entry_errors:
            await self._event("Warning", "ColocationConfigEntryDisabled", _sentences(now.entry_errors))
        if now.warnings:
            await self._event("Warning", "ColocationConfigWarning", _sentences(now.warnings))

    async def _event(self, type_: str, reason: str, note: str) -> None:
        settings = self._run.context.settings
        _LOG.log(logging.INFO if type_ == "Normal" else logging.WARNING, "ConfigMap %s: %s", settings.config_name, note)
        regarding = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "namespace": settings.namespace,
            "name": settings.config_name,
        }
        await self._run.events.record(regarding, type_, reason, "Configure", note)

    async def _keep(self, text: str) -> None:
        settings = self._run.context.settings
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": settings.last_good_name, "namespace": settings.namespace},
            "data": {CONFIG_MAP_KEY: text},
        }
        kept = await _read(self._run.api, settings, settings.last_good_name)
        if kept is None and text:
            await self._run.api.create(f"/api/v1/namespaces/{settings.namespace}/configmaps", body)
        elif kept is not None and _text(kept) != text:
            path = paths.config_map(settings.namespace, settings.last_good_name)
            await self._run.api.patch(path, {"data": body["data"]})


def _sentences(findings: Sequence[Finding]) -> str:
    text = "; ".join(str(each) for each in findings[:_MOST_FINDINGS])
    rest = len(findings) - _MOST_FINDINGS
    return f"{text}; and {rest} more" if rest > 0 else text
