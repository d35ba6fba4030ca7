"""The API server from a client's side: login, list-and-watch, patch. Knows no kind of ours."""

from headroom.kube import events, paths
from headroom.kube.api import APPLY, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, ApiServer
from headroom.kube.connection import Connection, Overrides, acts_as
from headroom.kube.decoding import Decode
from headroom.kube.errors import ApiError, ApiUnavailable, LoginError, optional
from headroom.kube.login import connect
from headroom.kube.watch import DEFAULT_TIMING, Changed, Relisted, WatchHealth, WatchTiming, list_and_watch

__all__ = [
    "APPLY",
    "DEFAULT_TIMING",
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_MERGE_PATCH",
    "ApiError",
    "ApiServer",
    "ApiUnavailable",
    "Changed",
    "Connection",
    "Decode",
    "LoginError",
    "Overrides",
    "Relisted",
    "WatchHealth",
    "WatchTiming",
    "acts_as",
    "connect",
    "events",
    "list_and_watch",
    "optional",
    "paths",
]
