"""Rules for `colocation_config.json`."""

import math
from typing import Any, Final

from tests.golden.rules.rule import INTERNALS, Deviation, Input, OutOfScope, Rule
from tests.golden.second_opinion import config

_REFUSED: Final = ["Warning/ColocationCfgUnmarshalFailed"]


def _text(vector: Input) -> str | None:
    text: str | None = vector.get("colocationConfigData")
    return text


def _is_refused(vector: Input) -> bool:
    return bool(vector.get("configMapPresent")) and config.in_force(_text(vector)) is None


def synced(vector: Input, theirs: Any) -> Any:  # noqa: ANN401
    """What the text puts in force, or what was in force before."""
    cache = vector.get("cache") or {}
    before = {**config.DEFAULTS, **(cache.get("config") or {})}
    refused = _is_refused(vector)
    text = _text(vector) if vector.get("configMapPresent") else None
    after = before if refused else config.in_force(text)
    expected = {
        "available": True,
        "changed": not refused and (not cache.get("available") or after != before),
        "config": after,
        "errorStatus": refused,
        "events": _REFUSED if refused else None,
    }
    return {name: value for name, value in expected.items() if name in theirs or "panics" in theirs}


def _sync(reason: str, when: Any) -> Deviation:  # noqa: ANN401
    """A reason why something else comes into force."""
    return Deviation("colocation_config", ("sync_config",), reason, ours=synced, when=when)


def _layered(vector: Input, theirs: Any) -> Any:  # noqa: ANN401
    """The same fields, each from the layer that wins."""
    strategy = theirs.get("strategy") or {}
    return {
        "strategy": {name: config.value_for(vector, name, config.DEFAULTS.get(name)) for name in strategy},
    }


def _label_differs(vector: Input) -> bool:
    """Whether a ratio label is refused, or truncates to something else than it rounds to."""
    return any(config.percent_of_label(text) != _truncated(text) for _, text in config.labelled(vector))


def _truncated(text: str) -> int | None:
    """The peer's percentage of a label; -1 for what it takes and cannot turn into one."""
    try:
        ratio = float.fromhex(text) if text.lower().lstrip("+").startswith("0x") else float(text)
    except ValueError:
        return None
    if not math.isfinite(ratio):
        return -1
    return None if ratio < 0 else int(ratio * 100)


def _annotation_is_ignored(vector: Input) -> bool:
    return config.annotated(vector) is not None and config.annotated_fields(vector) is None


def _node_enables(vector: Input) -> bool:
    cluster = (vector.get("config") or vector.get("strategy") or {}).get("enable")
    return not cluster and bool(config.value_for(vector, "enable", default=False))


def _selectors(vector: Input) -> list[Any]:
    return [(profile or {}).get("nodeSelector") for profile in vector.get("profiles") or ()]


def _entries_faulty(vector: Input) -> bool:
    entries = (vector.get("config") or {}).get("nodeConfigs") or ()
    return any(config.is_faulty(each, config.OF_ENTRIES) for each in entries)


RULES: Final[tuple[Rule, ...]] = (
    OutOfScope(
        "colocation_config",
        (
            "webhook_cfg_not_empty_and_changed",
            "webhook_create_profile_checker",
            "webhook_checker_init",
            "configmap_event",
            "is_config_available",
            "is_node_cfg_valid",
        ),
        INTERNALS,
    ),
    _sync(
        "without a ConfigMap the defaults apply, and that is no error",
        lambda vector: not vector.get("configMapPresent"),
    ),
    _sync(
        "a text with any fault (misspelt, out of range, negative durations, twice the same field, null) is refused "
        "with an event, and a configuration is in force at every moment",
        _is_refused,
    ),
    _sync(
        "a bad entry is disabled alone: it selects no node, and does not become the cluster's strategy",
        lambda vector: config.has_faulty_entries(_text(vector)),
    ),
    _sync(
        "a change is one of the complete configuration: what was left to a default and is now stated is none",
        lambda vector: not config.DEFAULTS.keys() <= ((vector.get("cache") or {}).get("config") or {}).keys(),
    ),
    _sync("fields of ours change what is in force", lambda vector: config.names_ours(_text(vector))),
    Deviation(
        "colocation_config",
        ("get_node_strategy", "update_strategy_for_node"),
        "an annotation with any fault is ignored as a whole",
        ours=_layered,
        when=_annotation_is_ignored,
    ),
    Deviation(
        "colocation_config",
        ("get_node_strategy", "update_strategy_for_node"),
        "ratio labels round (0.29 is 29 %), and one that is not from 0 to 1 is ignored",
        ours=_layered,
        when=_label_differs,
    ),
    Deviation(
        "colocation_config",
        ("get_node_strategy", "update_strategy_for_node"),
        "a node's own settings may enable what the cluster part disables",
        ours=_layered,
        when=_node_enables,
    ),
    Deviation(
        "colocation_config",
        ("strategy_from_node_annotation",),
        "an annotation with any fault is ignored as a whole",
        ours=lambda _vector, _theirs: {"error": True, "strategy": None},
        when=_annotation_is_ignored,
    ),
    Deviation(
        "colocation_config",
        ("is_strategy_valid",),
        "percentages above 100, thresholds above 1, durations that cannot be measured, unknown policies and misspelt "
        "names are faults",
        ours=lambda _vector, _theirs: {"valid": False},
        when=lambda vector: config.is_faulty(vector.get("strategy")),
    ),
    Deviation(
        "colocation_config",
        ("webhook_param_valid",),
        "the webhook refuses whatever the manager would not put in force",
        ours=lambda _vector, _theirs: {"error": True},
        when=lambda vector: config.is_faulty(vector.get("config"), config.OF_CLUSTER) or _entries_faulty(vector),
    ),
    Deviation(
        "colocation_config",
        ("webhook_selector_overlap",),
        "whether selectors overlap is decided exactly, whatever nodes there are",
        ours=lambda vector, _theirs: {"error": config.compete(_selectors(vector))},
        when=lambda vector: all(each is None or config.is_selector(each) for each in _selectors(vector)),
    ),
)
"""Its rules, those about scope first."""
