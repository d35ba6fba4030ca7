"""Which plugins run with which arguments: a file -> checked objects. Opens no connection and decides about no pod."""

from scheduler_plugins.profile.load import load_profile, parse_profile
from scheduler_plugins.profile.model import API_VERSION, DEFAULT_PROFILE, KIND, Profile, ProfileError, summary

__all__ = [
    "API_VERSION",
    "DEFAULT_PROFILE",
    "KIND",
    "Profile",
    "ProfileError",
    "load_profile",
    "parse_profile",
    "summary",
]
