"""ClusterColocationProfiles: each replica follows them for its webhook; the leader writes webhooks and conditions."""

import asyncio
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from crds.cluster_colocation_profile import PATH, ClusterColocationProfile
from headroom.kube import (
    JSON_PATCH,
    ApiError,
    ApiUnavailable,
    Changed,
    Relisted,
    WatchTiming,
    list_and_watch,
    optional,
    paths,
)
from manager.cluster import CachedCondition
from manager.context import Run
from manager.inputs.reading import get_path
from manager.profiles import pod_schema
from manager.profiles.pod_schema import PodSchema
from manager.profiles.profile import IN_FORCE, Profile
from manager.profiles.webhooks import changes_pods_of_koordinator, webhooks, with_authority
from manager.reconcile.steps.conditions import ConditionState, as_json
from manager.webhook.certificate import MUTATING
from manager.webhook.metrics import WebhookMetrics
from manager.webhook.service import Webhook

_LOG: Final = logging.getLogger(__name__)
_TIMING: Final = WatchTiming(absent_is_empty=True)
_REJECTED: Final = re.compile(r"webhooks\[(\d+)\]")
_INVALID: Final = 422
_REPEAT_SECONDS: Final = 30.0
_SETTLE_SECONDS: Final = 0.2
_HOLDS: Final = "New pods that it selects are changed."

Json = dict[str, Any]


class ProfileKeeper:
    """Follows the profiles during one run, and writes their webhooks and conditions."""

    def __init__(self, run: Run, webhook: Webhook) -> None:
        self._run, self._webhook, self._profiles = run, webhook, webhook.profiles
        self._changed = asyncio.Event()
        self._unwritable: set[tuple[str, str]] = set()  # conditions that the CRD of the cluster does not store
        self._listed = False
        self._logged = ""

    async def follow(self) -> None:
        """Follow profiles and PriorityClasses forever, and reconcile after each change."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_profiles())
            group.create_task(self._follow_classes())
            group.create_task(self._reconcile())

    def requeue(self) -> None:
        """Reconcile soon."""
        self._changed.set()

    async def _follow_profiles(self) -> None:
        async for change in list_and_watch(self._run.api, PATH, timing=_TIMING):
            if isinstance(change, Relisted):
                self._profiles.replace(change.items)
                self._listed = True
            elif change.type == "DELETED":
                self._profiles.drop(str(get_path(change.object, "metadata", "name")))
            else:
                self._profiles.put(change.object)
            self._changed.set()

    async def _follow_classes(self) -> None:
        async for change in list_and_watch(self._run.api, paths.PRIORITY_CLASSES):
            classes = {} if isinstance(change, Relisted) else dict(self._profiles.classes or {})
            for obj in change.items if isinstance(change, Relisted) else [change.object]:
                classes[str(get_path(obj, "metadata", "name"))] = int(get_path(obj, "value") or 0)
            if isinstance(change, Changed) and change.type == "DELETED":
                classes.pop(str(get_path(change.object, "metadata", "name")), None)
            self._profiles.classes = classes
            self._profiles.changed()
            self._changed.set()

    async def _reconcile(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), _REPEAT_SECONDS)
            await asyncio.sleep(_SETTLE_SECONDS)  # changes that come together are written together
            self._changed.clear()
            try:
                await self._once()
                self._logged = ""
            except (ApiError, ApiUnavailable) as error:
                if str(error) != self._logged:
                    _LOG.warning("Profiles are not up to date: %s; the manager tries again", error)
                self._logged = str(error)

    async def _once(self) -> None:
        if not self._listed or self._profiles.classes is None:
            return
        if self._profiles.all():
            self._profiles.other_webhook = await _other_webhook(self._run)
        if self._profiles.has_patches and self._profiles.schema is None:
            self._profiles.schema = await self._schema()
            self._profiles.changed()
        self._count()
        if self._run.leader.is_leader:
            await self._write_webhooks()
            await self._write_conditions()

    async def _schema(self) -> PodSchema | None:
        """Return the schema of pods; without one, profiles with a patch stay out of force."""
        try:
            return PodSchema(await self._run.api.get(pod_schema.PATH))
        except (KeyError, TypeError) as error:
            _LOG.warning("The API server describes no pods at %s (%s); the manager tries again", pod_schema.PATH, error)
            return None

    def _count(self) -> None:
        gauge, total = self._run.context.metrics.of(WebhookMetrics).profiles, len(self._profiles.all())
        in_force = len(self._profiles.in_force())
        gauge.labels("true").set(in_force)
        gauge.labels("false").set(total - in_force)

    async def _write_webhooks(self) -> None:
        """Make the webhook configuration of the chart that of the profiles in force."""
        options = self._run.context.settings.webhook
        path = f"{MUTATING}/{options.profiles_configuration_name}"
        current = await optional(self._run.api.get(path))
        if current is None:
            raise ApiError(
                404, "NotFound", f"{options.profiles_configuration_name} is missing: install the chart again"
            )
        present, profiles = current.get("webhooks") or [], self._profiles.in_force()
        wanted = webhooks(profiles, self._run.context.settings.namespace, options.service_name)
        wanted = with_authority(wanted, present, self._webhook.authority)
        if wanted == present:
            return
        version = {"op": "test", "path": "/metadata/resourceVersion", "value": current["metadata"]["resourceVersion"]}
        try:
            await self._run.api.patch(
                path, [version, {"op": "add", "path": "/webhooks", "value": wanted}], content_type=JSON_PATCH
            )
        except ApiError as error:
            if not self._reject([profile for profile in profiles if profile.percent], error):
                raise
        else:
            _LOG.info("Webhooks of profiles: written; profiles in force: %d", len(wanted))

    def _reject(self, profiles: Sequence[Profile], error: ApiError) -> bool:
        """Take profiles that the API server accepts in no webhook out of force; return whether there are any."""
        indexes = {int(index) for index in _REJECTED.findall(error.message)} if error.status == _INVALID else set()
        for index in indexes & set(range(len(profiles))):
            profile = profiles[index]
            self._profiles.rejected[profile.name] = (profile.generation, f"the API server rejects it: {error.message}")
        if indexes:
            self._changed.set()
        return bool(indexes)

    async def _write_conditions(self) -> None:
        for profile in list(self._profiles.all().values()):
            state = self._state(profile)
            if (profile.uid, state.message) in self._unwritable or _is_stored(profile, state):
                continue
            await self._report(profile, state)
            body = {"status": {"conditions": _conditions(profile, state, self._run.context.wall())}}
            answer = await optional(self._run.api.patch(paths.status(f"{PATH}/{profile.name}"), body))
            if answer is not None and not get_path(answer, "status", "conditions"):
                self._unwritable.add((profile.uid, state.message))

    def _state(self, profile: Profile) -> ConditionState:
        obstacle = self._profiles.obstacle(profile)
        if obstacle is None:
            return ConditionState(IN_FORCE, holds=True, reason="Applied", message=_HOLDS)
        message = f"No pod is changed: {obstacle.message}."
        return ConditionState(IN_FORCE, holds=False, reason=obstacle.reason, message=message)

    async def _report(self, profile: Profile, state: ConditionState) -> None:
        kind = ClusterColocationProfile
        reference = {"apiVersion": kind.API_VERSION, "kind": kind.KIND, "name": profile.name, "uid": profile.uid}
        type_, reason = ("Normal", "ProfileInForce") if state.holds else ("Warning", "ProfileNotInForce")
        await self._run.events.record(reference, type_, reason, "Admit", state.message)


def _is_stored(profile: Profile, state: ConditionState) -> bool:
    stored = [profile.condition.get(name) for name in ("status", "reason", "message")]
    return stored == [state.status, state.reason, state.message]


def _conditions(profile: Profile, state: ConditionState, now: float) -> list[Json]:
    status, reason, since = (
        str(profile.condition.get(name) or "") for name in ("status", "reason", "lastTransitionTime")
    )
    (condition,) = as_json([state], {state.type: CachedCondition(status, reason, since)}, now)
    foreign = (known for known in profile.conditions if known.get("type") != state.type)
    return [*map(dict, foreign), {**condition, "observedGeneration": profile.generation or 0}]


async def _other_webhook(run: Run) -> str:
    """Return the configuration with which a Koordinator changes pods; empty: there is none."""
    configurations, _ = await run.api.list(MUTATING)
    return changes_pods_of_koordinator(configurations)
