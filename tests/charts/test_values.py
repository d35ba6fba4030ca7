"""The values file beside its schema, without helm."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "charts/headroom"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def objects(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each object with named properties in a schema, with its path."""
    if "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    if schema.get("properties"):
        yield path, schema
    for name, part in (schema.get("properties") or {}).items():
        yield from objects(part, f"{path}.{name}")
    if "items" in schema:
        yield from objects(schema["items"], f"{path}[]")


def test_schema_refuses_unknown_names() -> None:
    """Every object of the values refuses names that it does not know."""
    assert [path for path, part in objects(SCHEMA) if part.get("additionalProperties") is not False] == []


def test_values_and_schema_agree() -> None:
    """Whatever the values file sets is in the schema, and whatever is in the schema has its default in the file."""
    for path, part in objects(SCHEMA):
        if path == "" or path in {
            ".agent",
            ".manager",
            ".scheduler",
            ".image",
            ".prometheus",
            ".scheduler.extender",
            ".scheduler.watcher",
        }:
            stands = VALUES
            for name in filter(None, path.split(".")):
                stands = stands[name]
            assert set(part["properties"]) - {"global"} == set(stands), path


def test_every_value_is_documented() -> None:
    """A comment stands right above each value of the first two levels."""
    lines = (CHART / "values.yaml").read_text().splitlines()
    pairs = zip(["", *lines], lines, strict=False)
    found = [text for above, text in pairs if re.match(r"( {2})?[a-zA-Z]+:", text) and "#" not in above]
    assert found == []


def test_nothing_is_sold_by_default() -> None:
    """A fresh install measures and predicts; it sells nothing until somebody enables it."""
    assert VALUES["colocationConfig"] == {"enable": False}
