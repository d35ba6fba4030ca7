"""The ConfigMaps: the one that people edit, and the one that holds the last good text for the next start."""

from collections.abc import Mapping
from typing import Any, Final

from crds.names import ANNOTATION_CONFIG_STATE, ANNOTATION_IN_FORCE_SINCE, CONFIG_MAP_KEY
from headroom.kube import ApiServer, optional, paths
from manager.config.state import format_timestamp, parse_timestamp
from manager.settings import Settings

Json = dict[str, Any]

_DEFAULT: Final = '{\n  "enable": false\n}\n'


async def read(api: ApiServer, settings: Settings, name: str) -> Json | None:
    """A ConfigMap of our namespace; `None` where there is none."""
    return await optional(api.get(paths.config_map(settings.namespace, name)))


def text_of(config_map: Mapping[str, Any] | None) -> str | None:
    """The configuration in a ConfigMap; `None` where it has none."""
    text = ((config_map or {}).get("data") or {}).get(CONFIG_MAP_KEY)
    return None if text is None else str(text)


def keys_of(config_map: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The keys of a ConfigMap, to warn about misspelt ones."""
    return tuple((config_map or {}).get("data") or ())


def state_of(config_map: Mapping[str, Any] | None) -> str | None:
    state = _annotations(config_map).get(ANNOTATION_CONFIG_STATE)
    return None if state is None else str(state)


def since_of(kept: Mapping[str, Any] | None) -> float:
    """Since when a last good text was in force; 0 if unknown. [s since 1970]"""
    return parse_timestamp(_annotations(kept).get(ANNOTATION_IN_FORCE_SINCE)) or 0.0


async def create_default(api: ApiServer, settings: Settings) -> Json:
    """Create the ConfigMap that publishes nothing, for users to edit; an existing one is not changed."""
    labels = {"app.kubernetes.io/part-of": "headroom"}  # by which uninstalling knows it
    metadata = {"name": settings.config_name, "namespace": settings.namespace, "labels": labels}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {CONFIG_MAP_KEY: _DEFAULT}}
    return await api.create(f"/api/v1/namespaces/{settings.namespace}/configmaps", body)


async def store(api: ApiServer, settings: Settings, text: str, since: float) -> None:
    """Store a good text for the next start."""
    name, namespace = settings.last_good_name, settings.namespace
    saved = await read(api, settings, name)
    metadata: Json = {"annotations": {ANNOTATION_IN_FORCE_SINCE: format_timestamp(since)}}
    data = {CONFIG_MAP_KEY: text}
    if saved is None and text:
        metadata |= {"name": name, "namespace": namespace}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        await api.create(f"/api/v1/namespaces/{namespace}/configmaps", body)
    elif saved is not None and (text_of(saved) != text or not since_of(saved)):
        await api.patch(paths.config_map(namespace, name), {"metadata": metadata, "data": data})


def _annotations(obj: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return ((obj or {}).get("metadata") or {}).get("annotations") or {}
