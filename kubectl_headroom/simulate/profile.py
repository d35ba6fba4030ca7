"""Which profile is simulated: a file's, else the one that the cluster's scheduler has, else the one that ships."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from headroom import kube
from kubectl_headroom import live
from kubectl_headroom.errors import USAGE, CommandError
from scheduler_plugins.api import DEFAULT_PROFILE, Profile, ProfileError, load_profile, parse_profile

CONFIG_MAP: Final = "headroom-scheduler"
"""The ConfigMap of the chart with the configurations of kube-scheduler and of the extender."""
SCHEDULERS: Final = ("headroom-scheduler",)  # the schedulers of the chart, by default


@dataclass(frozen=True, slots=True)
class SelectedProfile:
    """A profile, and where it comes from."""

    profile: Profile  # the decoded profile
    origin: str  # how the output calls it
    scheduler_names: tuple[str, ...] = SCHEDULERS  # the schedulers that call the extender


def of_file(path: str, scheduler_name: str | None) -> SelectedProfile:
    """The profile of a file.

    Raises:
        CommandError: it cannot be used; names every mistake.
    """
    try:
        return SelectedProfile(load_profile(Path(path), None, scheduler_name), path)
    except ProfileError as error:
        raise CommandError(str(error), USAGE) from error


async def of_cluster(api: kube.ApiServer, namespace: str, scheduler_name: str | None) -> SelectedProfile:
    """The profile of the cluster's scheduler, with its mode.

    Raises:
        CommandError: the cluster's cannot be used; names every mistake.
    """
    place = f"ConfigMap {namespace}/{CONFIG_MAP}"
    try:
        config_map = await live.config_map(api, namespace, CONFIG_MAP)
    except kube.ApiError as error:
        why = f"{place} may not be read ({error.message})" if error.status else str(error)
        return SelectedProfile(_shipped(), f"the one that ships, because {why}")
    if config_map is None:
        return SelectedProfile(_shipped(), f"the one that ships, because there is no {place}")
    data = config_map.get("data") or {}
    given, text = _parsed(data.get("kube-scheduler.yaml")), data.get("profile.yaml")
    mode, names = _mode(given), _names(given)
    if text is None:
        return SelectedProfile(_shipped(mode), f"the one that ships, because {place} has none of its own", names)
    try:
        return SelectedProfile(parse_profile(text, f"The profile of {place}", mode, scheduler_name), place, names)
    except ProfileError as error:
        raise CommandError(str(error)) from error


def _shipped(mode: str | None = None) -> Profile:
    return load_profile(DEFAULT_PROFILE, mode)


def _parsed(text: object) -> Mapping[str, Any]:
    """kube-scheduler's configuration; empty where it cannot be read."""
    try:
        data = yaml.safe_load(text) if isinstance(text, str) else None
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, Mapping) else {}


def _mode(given: Mapping[str, Any]) -> str | None:
    """Return the mode of kube-scheduler's configuration: it requests scores in `weighted` alone."""
    extenders = given.get("extenders")
    if not isinstance(extenders, list):
        return None
    verbs: list[Any] = [extender.get("prioritizeVerb") for extender in extenders if isinstance(extender, Mapping)]
    return "weighted" if any(verbs) else "shortlist"


def _names(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The schedulers of kube-scheduler's configuration."""
    listed = given.get("profiles")
    profiles = [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
    return tuple(str(profile["schedulerName"]) for profile in profiles if profile.get("schedulerName")) or SCHEDULERS
