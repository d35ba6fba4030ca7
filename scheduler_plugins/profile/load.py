"""A file -> a profile, whichever of the two formats it has; all mistakes at once."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from scheduler_plugins.arguments import nearest, shown
from scheduler_plugins.extender.service import Mode
from scheduler_plugins.framework.plugin import LoadAccounting
from scheduler_plugins.profile import headroom, text, upstream
from scheduler_plugins.profile.fields import ValidationErrors
from scheduler_plugins.profile.model import API_VERSION, KIND, Profile, ProfileError

_MOST_TOLD: Final = 50


def load_profile(path: Path, mode: str | None = None, scheduler_name: str | None = None) -> Profile:
    """Read a profile.

    Raises ProfileError: it cannot be read or is invalid; names every mistake.
    """
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ProfileError(f"The profile {path} cannot be read: {why}") from error
    return parse_profile(content, f"The profile {path}", mode, scheduler_name)


def parse_profile(content: str, origin: str, mode: str | None = None, scheduler_name: str | None = None) -> Profile:
    """Read a profile's text. Raises ProfileError: it is invalid; names every mistake."""
    try:
        data = text.read(content)
    except text.TextError as error:
        raise ProfileError(f"{origin} cannot be used: {error}") from error
    errors = ValidationErrors([], [])
    profile = _parse(data, scheduler_name, errors)
    counting = [part.name for part in profile.enabled if isinstance(part.plugin, LoadAccounting)]
    if len(counting) > 1:
        errors.mistakes.append(f"plugins: {' and '.join(counting)} both have rules of load: leave one")
    if errors.mistakes:
        texts = errors.mistakes[:_MOST_TOLD]
        more = len(errors.mistakes) - len(texts)
        lines = "".join(f"\n  {mistake}" for mistake in [*texts, *([f"and {more} more"] if more else [])])
        raise ProfileError(f"{origin} cannot be used:{lines}")
    answering = profile.answering if mode is None else replace(profile.answering, mode=Mode(mode))
    return replace(profile, answering=answering, notes=tuple(errors.notes))


def _parse(data: object, scheduler_name: str | None, errors: ValidationErrors) -> Profile:
    kinds = (KIND, upstream.KIND)
    if not isinstance(data, Mapping):
        errors.mistakes.append(f"it is not an object with apiVersion: {API_VERSION} and kind: {KIND}")
        return Profile(())
    kind = data.get("kind")
    if kind == upstream.KIND:
        return upstream.parse(data, scheduler_name, errors)
    if kind != KIND:
        hint = nearest(kind, kinds) if isinstance(kind, str) else "it is the kind of the file"
        errors.mistakes.append(f"kind: {shown(kind)}: must be {' or '.join(kinds)}; {hint}")
    return headroom.parse(data, errors)
