"""colocation_config: what a ConfigMap puts in force, and what that means for one node.

`error` of the webhook's operations says whether an edit is reported. The peer rejects settings that we warn of (names,
overlaps). `events` are those about a text that is refused, by the peer's name for them: a text accepted with a warning
is no event of the peer.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from crds.codec import from_json, to_json
from crds.colocation import ColocationConfig, ColocationStrategy, NodeStrategy
from crds.names import ANNOTATION_COLOCATION_STRATEGY, CONFIG_MAP_KEY
from manager.config import overlaps, selector
from manager.config.in_force import InForce, after_change
from manager.config.merge import effective_strategy
from manager.config.parse import parse_strategy, review
from manager.handlers.config import ConfigReconciler
from tests.support.world import World

Json = dict[str, Any]
_THEIR_NAMES: Final = {"ColocationConfigInvalid": "ColocationCfgUnmarshalFailed"}
logging.getLogger("manager").addHandler(logging.NullHandler())  # logs of the keeper are no part of a report


def config_of(data: Mapping[str, Any] | None) -> ColocationConfig:
    """A parsed configuration; as in ours, an entry with a malformed selector matches nothing."""
    config = from_json(ColocationConfig, data or {})
    entries = tuple(
        replace(entry, node_selector=None) if selector.faults(entry.node_selector, "") else entry
        for entry in config.node_configs or ()
    )
    return replace(config, node_configs=entries)


def _complete(config: ColocationConfig) -> Json:
    """The cluster's strategy with every default, and each entry laid over it."""
    alone = replace(config, node_configs=None)
    result = to_json(effective_strategy(alone).strategy)
    entries = [_entry(alone, entry) for entry in config.node_configs or ()]
    return {**result, "nodeConfigs": entries} if entries else result


def _entry(cluster: ColocationConfig, entry: NodeStrategy) -> Json:
    for_all = replace(cluster, node_configs=(replace(entry, node_selector={}),))
    selected = None if entry.node_selector is None else dict(entry.node_selector)
    return {**to_json(effective_strategy(for_all).strategy), "name": entry.name, "nodeSelector": selected}


def _sync_config(vector: Json) -> Json:
    cache = vector.get("cache") or {}
    before = InForce(config_of(cache.get("config")))
    text, present = vector.get("colocationConfigData"), bool(vector.get("configMapPresent"))
    after = after_change(before, text, present=present)
    new = not cache.get("available") or _complete(after.config) != _complete(before.config)
    return {
        "available": True,  # there is no moment without a configuration in force
        "changed": new and not after.errors,
        "config": _complete(after.config),
        "errorStatus": bool(after.errors),
        "events": asyncio.run(_refusals(text)) if present else None,
    }


async def _refusals(text: str | None) -> list[str] | None:
    """The events about a text that is refused."""
    world = World()
    keeper = ConfigReconciler(world.run)
    keeper.observe({"metadata": {"name": "c"}, "data": {} if text is None else {CONFIG_MAP_KEY: text}})
    await keeper.reconcile()
    texts = [event for event in world.api.written("POST", "/events") if event["reason"] in _THEIR_NAMES]
    return [f"{event['type']}/{_THEIR_NAMES[event['reason']]}" for event in texts] or None


def _get_node_strategy(vector: Json) -> Json:
    config, node = vector.get("config"), vector.get("node")
    if config is None or node is None:
        return {"strategy": None}
    return {
        "strategy": to_json(effective_strategy(config_of(config), node.get("labels"), node.get("annotations")).strategy)
    }


def _update_strategy_for_node(vector: Json) -> Json:
    return _get_node_strategy({"config": vector.get("strategy"), "node": vector.get("node")})


def _strategy_from_node_annotation(vector: Json) -> Json:
    text = ((vector.get("node") or {}).get("annotations") or {}).get(ANNOTATION_COLOCATION_STRATEGY)
    if text is None:
        return {"error": False, "strategy": None}
    evaluated = parse_strategy(text)
    if evaluated.strategy is None:
        return {"error": bool(evaluated.errors), "strategy": None}
    return {"error": False, "strategy": to_json(evaluated.strategy)}


def _is_strategy_valid(vector: Json) -> Json:
    return {"valid": parse_strategy(json.dumps(vector.get("strategy"))).strategy is not None}


def _default_strategy(_vector: Json) -> Json:
    return {"strategy": _complete(ColocationConfig())}


def _webhook_profile_names(vector: Json) -> Json:
    """Each entry selects nodes of its own, so that only names are left to warn of."""
    entries = [
        {**({"name": profile["name"]} if profile.get("name") else {}), "nodeSelector": {"matchLabels": {"n": str(n)}}}
        for n, profile in enumerate(vector.get("profiles") or ())
    ]
    texts = review(json.dumps({"nodeConfigs": entries}))
    return {"error": bool(vector.get("nameCheckEnabled")) and bool(texts.refusals() or texts.warnings)}


def _webhook_node_conflict(vector: Json) -> Json:
    labels = (vector.get("node") or {}).get("labels") or {}
    config = config_of({"nodeConfigs": vector.get("profiles") or []})
    return {"error": bool(overlaps.on_nodes(config, [("node", labels)]))}


def _webhook_param_valid(vector: Json) -> Json:
    return {"error": bool(review(json.dumps(vector.get("config"))).refusals())}


def strategy_in_force(text: str | None, node: Mapping[str, Any], *, present: bool) -> ColocationStrategy:
    """The strategy of a node under a ConfigMap that is the first one ever seen."""
    config = after_change(InForce(), text, present=present).config
    return effective_strategy(config, node.get("labels"), node.get("annotations")).strategy
