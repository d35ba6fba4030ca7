"""Entries of nodeConfigs that compete for the same nodes."""

import json
from typing import Any

from manager.config.overlaps import on_nodes
from manager.config.parse import parse_config


def _in(*values: str, key: str = "pool", operator: str = "In") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def _bare(operator: str, key: str = "pool") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator}]}


def _told(*entries: dict[str, Any]) -> tuple[list[str], list[str]]:
    parsed = parse_config(json.dumps({"nodeConfigs": entries}))
    return [str(each) for each in parsed.warnings], [str(each) for each in parsed.hints]


def test_names_are_wanted() -> None:
    """Entries of the same name, or of none, make messages unclear."""
    a, b = {"nodeSelector": _in("a")}, {"nodeSelector": _in("b")}
    assert _told({"name": "x", **a}, {"name": "x", **b})[0] == [
        "nodeConfigs[1].name: nodeConfigs[0] has the same name: give each its own, so that messages are clear"
    ]
    assert _told(a)[1] == ["nodeConfigs[0]: has no name: give it one, so that events and explain can name it"]


def test_live_nodes_that_match_two() -> None:
    """Live nodes that match two entries are named, few of many, with the entry that applies there."""
    text = json.dumps(
        {
            "nodeConfigs": [
                {"name": "gpu", "nodeSelector": _bare("Exists", "gpu")},
                {"name": "bad", "nodeSelector": {}, "mode": "x"},
                {"name": "zone-a", "nodeSelector": {"matchLabels": {"zone": "a"}}},
            ]
        }
    )
    config = parse_config(text).config
    assert config is not None
    nodes = [(f"n{i}", {"zone": "a", "hostname": f"n{i}", **({"gpu": "y"} if i % 2 else {})}) for i in range(14)]
    found = on_nodes(config, nodes)
    assert [str(each) for each in found] == [
        (
            "nodeConfigs[2] zone-a matches 7 nodes (n1, n11, n13, n3, n5 and 2 more) too, "
            "but nodeConfigs[0] gpu comes first and applies there"
        )
    ]
    assert on_nodes(config, [("n1", {"zone": "a"})]) == ()
