"""The ConfigMap: validated on change, its status reported, its last good text stored for restarts and replicas."""

import asyncio
from dataclasses import replace
from typing import Any

import kopf

from headroom.kube import ApiServer
from manager.config.in_force import InForce, Origin, after_change, at_start
from manager.config.parse import parse_config
from manager.context import Context, Run
from manager.handlers import config_map, priority_classes
from manager.handlers.config_status import ConfigStatusReporter


def register(registry: kopf.OperatorRegistry, run: Run, config_reconciler: "ConfigReconciler") -> None:
    """Register the handler of ConfigMap events; kopf's settings restrict the watch to this one."""
    wanted = run.context.settings.config_name

    @kopf.on.event("v1", "configmaps", registry=registry)
    async def config_map_event(event: kopf.RawEvent, **_: Any) -> None:  # noqa: ANN401
        obj = event["object"]
        if obj["metadata"]["name"] == wanted:
            stored = None if event["type"] == "DELETED" else dict(obj)
            await _parsed(config_map.text_of(stored))
            config_reconciler.observe(stored)


async def load(api: ApiServer, context: Context) -> None:
    """Read the ConfigMap before anything is calculated, so that no default is used that does not apply.

    What an earlier run of this process has in force stays so if the ConfigMap is bad.
    """
    settings, own = context.settings, context.in_force
    result = await config_map.read(api, settings, settings.config_name)
    last_good = await config_map.read(api, settings, settings.last_good_name)
    context.in_force = at_start(
        config_map.text_of(result),
        present=result is not None,
        last_good=own.text or config_map.text_of(last_good),
        last_good_since=own.since if own.text else config_map.since_of(last_good),
        now=context.wall(),
        keys=config_map.keys_of(result),
    )


async def _parsed(text: str | None) -> None:
    """Parse a text in a thread, as a large one takes a second; the result is cached for the event loop."""
    await asyncio.to_thread(parse_config, text)


class ConfigReconciler:
    """Applies changes of the ConfigMap, and in the background reports them and stores the last good text."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._status_reporter = ConfigStatusReporter(run)
        self._status_reporter.update_metrics()
        self._reporting = False  # for all replicas
        self._stored: str | None = None
        self._written: str | None = None
        self._seen = 0

    def observe(self, obj: dict[str, Any] | None) -> None:
        """Validate the present ConfigMap; `None` when it is gone."""
        self._seen += 1
        context = self._run.context
        self._record_object(obj)
        text = config_map.text_of(obj)
        keys = config_map.keys_of(obj)
        self._apply(after_change(context.in_force, text, present=obj is not None, now=context.wall(), keys=keys))

    def _record_object(self, obj: dict[str, Any] | None) -> None:
        """Record its annotation and its uid: `kubectl describe` selects events by uid."""
        self._written = config_map.state_of(obj)
        if obj is not None:
            self._status_reporter.uid = str(obj["metadata"].get("uid", ""))

    def _apply(self, state: InForce) -> None:
        context = self._run.context
        before = context.in_force
        if (state, state.since) == (before, before.since):
            return  # such as the manager's own annotation; comparing the same object is cheap
        context.in_force = state
        self._status_reporter.update_metrics()
        if state.config != before.config:
            self._run.requeue_all()

    async def refresh(self) -> None:
        """Read the ConfigMap again: kopf misses a deletion while its watch was down."""
        settings, seen = self._run.context.settings, self._seen
        result = await config_map.read(self._run.api, settings, settings.config_name)
        await _parsed(config_map.text_of(result))
        if seen == self._seen:  # else the watch has reported something newer meanwhile
            self.observe(result)

    async def reconcile(self) -> None:
        """Report the configuration and store its text, if this replica leads and has not done so yet."""
        was_reporting, self._reporting = self._reporting, self._run.leader.is_leader
        if not self._reporting:
            if was_reporting:
                self._status_reporter.hand_over()
            return
        if not was_reporting:
            self._reporting = False  # until that has succeeded
            await self._take_over()
            self._reporting = True
        await self._status_reporter.reconcile(self._written)
        now = self._run.context.in_force
        if not now.errors and self._stored != now.text:
            await config_map.store(self._run.api, self._run.context.settings, now.text, now.since)
            self._stored = now.text

    async def _take_over(self) -> None:
        """Continue from the last leader: with its last good text, if that is newer than what this replica observed."""
        context, settings, seen = self._run.context, self._run.context.settings, self._seen
        if settings.create_priority_classes:
            await priority_classes.create_missing(self._run.api)
        last_good = await config_map.read(self._run.api, settings, settings.last_good_name)
        result = await config_map.read(self._run.api, settings, settings.config_name)
        if result is None and last_good is None and not context.in_force.present:  # otherwise it was deleted
            result = await config_map.create_default(self._run.api, settings)
        if seen == self._seen:  # else the watch has reported something newer meanwhile
            self._record_object(result)
        text, since = config_map.text_of(last_good) or "", config_map.since_of(last_good)
        await _parsed(text)
        known, now = parse_config(text).config if text else None, context.in_force
        if text == now.text and since:
            self._apply(replace(now, since=since))
        elif known is not None and now.errors and since > now.since:
            in_force = InForce(known, text, Origin.LAST_GOOD, present=now.present, since=since)
            self._apply(replace(in_force, errors=now.errors, warnings=now.warnings))
        self._status_reporter.take_over(known)
        self._stored = text if since else None
