"""The profiles as one replica knows them, for its webhook. Changed by `manager.handlers.profiles` alone."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from crds.mid_translation import Translation
from manager.profiles import application
from manager.profiles.pod_schema import PodSchema
from manager.profiles.profile import Profile, read

Json = dict[str, Any]


class Obstacle(NamedTuple):
    """The reason why a profile changes no pod."""

    reason: str
    """A CamelCase word for programs."""
    message: str
    """A sentence without its end."""


class Profiles:
    """The objects on which the webhook depends, and the profiles as they were read."""

    def __init__(self) -> None:
        self._objects: dict[str, Json] = {}
        self._profiles: dict[str, Profile] | None = None
        self.classes: dict[str, int] | None = None
        """Name of each PriorityClass -> its value; None until they are listed."""
        self.schema: PodSchema | None = None
        """The schema of pods; None until a profile has a patch."""
        self.rejected: dict[str, tuple[int | None, str]] = {}
        """Name of a profile that the API server accepts in no webhook -> its generation, and the reason."""
        self.other_webhook = ""
        """The webhook configuration of a Koordinator that applies the profiles; empty: there is none."""

    def replace(self, objects: list[Json]) -> None:
        """Replace all profiles."""
        self._objects = {str(obj["metadata"]["name"]): obj for obj in objects}
        self._profiles = None

    def put(self, obj: Json) -> None:
        """Add or replace a profile."""
        self._objects[str(obj["metadata"]["name"])] = obj
        self._profiles = None

    def drop(self, name: str) -> None:
        """Drop a profile."""
        self._objects.pop(name, None)
        self._profiles = None

    def changed(self) -> None:
        """Note a change of `classes` or `schema`."""
        self._profiles = None

    def all(self) -> Mapping[str, Profile]:
        """Return all profiles by their names, in the order in which they apply."""
        if self._profiles is None:
            objects = sorted(self._objects.items())
            self._profiles = {name: read(obj, self.classes, self.schema) for name, obj in objects}
        return self._profiles

    @property
    def has_patches(self) -> bool:
        """Return whether a profile has a patch, which needs the schema of pods."""
        return any(profile.spec.patch is not None for profile in self.all().values())

    def obstacle(self, profile: Profile) -> Obstacle | None:
        """Return the reason why a profile changes no pod; None: it is in force."""
        generation, rejection = self.rejected.get(profile.name, (None, ""))
        if profile.faults:
            return Obstacle("Invalid", "; ".join(map(str, profile.faults)))
        if rejection and generation == profile.generation:
            return Obstacle("Rejected", rejection)
        if self.other_webhook:
            return Obstacle("Koordinator", f"Koordinator's webhook {self.other_webhook} applies the profiles")
        if self.classes is None or (profile.spec.patch is not None and self.schema is None):
            return Obstacle("NotRead", "the manager has not read the PriorityClasses and the schema of pods yet")
        return None

    def in_force(self) -> list[Profile]:
        """Return the profiles that change pods."""
        return [profile for profile in self.all().values() if self.obstacle(profile) is None]

    def apply(self, name: str, pod: Mapping[str, Any]) -> Translation:
        """Change a pod by a profile that the API server has matched; one that is not in force changes nothing."""
        profile = self.all().get(name)
        if profile is None or self.obstacle(profile) is not None:
            return Translation(pod)
        return application.apply(profile, pod, self.classes or {}, self.schema)
