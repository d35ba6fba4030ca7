"""The values file beside its schema, without helm."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import getitem
from typing import Any

import yaml

from tests.charts.readme import CHART, table, values, with_table
from tests.charts.rendered import ROOT
from tests.charts.schema import REMOVED_PATH, removed_values, with_generated

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
PARTS = ("agent", "manager", "scheduler")
TABLE = values((CHART / "values.yaml").read_text())


def objects(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each object with named properties in a schema, with its path."""
    if "$ref" in schema:
        schema = reduce(getitem, schema["$ref"].removeprefix("#/").split("/"), SCHEMA)
    if schema.get("properties"):
        yield path, schema
    for name, part in (schema.get("properties") or {}).items():
        yield from objects(part, f"{path}.{name}")
    if "items" in schema:
        yield from objects(schema["items"], f"{path}[]")


def test_schema_refuses_unknown_names() -> None:
    """Kubernetes defines volumes and containers, a template refuses other globals, and plugins may be foreign."""
    open_ = [path for path, part in objects(SCHEMA) if part.get("additionalProperties") is not False]
    pods = [f".{part}.{name}[]" for part in PARTS for name in ("extraVolumes", "extraContainers")]
    assert sorted(open_) == sorted([".global", *pods, ".scheduler.profile.arguments"])


def test_schema_can_state_its_rules() -> None:
    """Helm reports a failed `not`, `anyOf` or `oneOf` without the rule; templates refuse these with a sentence."""
    text = json.dumps(SCHEMA)
    assert [word for word in ("not", "anyOf", "oneOf", "else") if f'"{word}": ' in text] == []


def test_schema_is_that_of_the_code() -> None:
    """The colocation config's fields and the plugins' arguments are those of the code; else: make chart-schema."""
    assert with_generated(SCHEMA) == SCHEMA
    assert json.loads(REMOVED_PATH.read_text()) == removed_values()


def test_values_and_schema_agree() -> None:
    """Whatever the values file sets is in the schema, and whatever is in the schema has its default in the file."""
    groups = {entry.path for entry in TABLE if entry.default is None} | {()}
    result = {tuple(filter(None, path.split("."))): set(part["properties"]) for path, part in objects(SCHEMA)}
    removed = defaultdict[tuple[str, ...], set[str]](set)
    for removed_value in removed_values():
        *above, name = removed_value.partition("=")[0].split(".")
        removed[*above,].add(name)
    for path in sorted(groups):
        section = VALUES
        for name in path:
            section = section[name]
        if path != ("colocationConfig",):  # passed on unchanged: the manager knows its fields
            assert result[path] - removed[path] == set(section), path


def test_every_value_is_documented() -> None:
    assert len(TABLE) > 50
    assert [entry.name for entry in TABLE if not entry.comment] == []


def test_page_has_every_value() -> None:
    """The README's table is the one that values.yaml makes; after a change: make chart-readme."""
    page = (CHART / "README.md").read_text()
    assert page == with_table(page, (CHART / "values.yaml").read_text())


def test_table_is_made_of_comments() -> None:
    """A comment becomes a row; a mapping without comments inside is a value as a whole."""
    text = "# Above.\n\n# A group.\na:\n  # Either|or\n  #   --example\n  b: {c: 1}\n# Last.\nd: []\n"
    rows = table(text).splitlines()
    assert '| `a.b` | `{"c": 1}` | Either\\|or `--example` |' in rows
    assert "| `d` | `[]` | Last. |" in rows
    assert rows.index("### a") < rows.index("A group.")


def test_nothing_is_published_by_default() -> None:
    assert VALUES["colocationConfig"] == {}


def test_chart_crds_are_ours() -> None:
    """The chart ships the very CRDs of `crds/`; after a change: cp crds/*.yaml charts/headroom/crds/."""
    ours, shipped = (
        {path.name: path.read_bytes() for path in folder.glob("*.yaml")} for folder in (ROOT / "crds", CHART / "crds")
    )
    assert ours
    assert shipped == ours
