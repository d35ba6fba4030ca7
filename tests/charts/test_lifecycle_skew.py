"""From one version of the chart to the next: definitions only grow, and values that were set are still values."""

import operator
import tarfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.charts.rendered import CHART, Helm
from tests.e2e.life import PREVIOUS
from tools.devcluster import CommandError

DEFINITIONS: Final = ("crds/node_metric.yaml", "crds/elastic_quota.yaml")
_LOWEST: Final = ("minimum", "minLength", "minItems")
_WITHOUT_EFFECT: Final = "['requests.', 'limits.', 'count/']"  # in rules about names that no version has counted
_HIGHEST: Final = ("maximum", "maxLength", "maxItems")

Json = Mapping[str, Any]


@cache
def before(name: str) -> str:
    with tarfile.open(PREVIOUS) as package:
        file = package.extractfile(f"headroom/{name}")
        assert file is not None
        return file.read().decode()


def now(name: str) -> str:
    return (CHART / name).read_text(encoding="utf-8")


def versions(text: str) -> dict[str, Json]:
    return {version["name"]: version for version in yaml.safe_load(text)["spec"]["versions"]}


def tightened(old: Json, new: Json, path: str = "") -> Iterator[str]:
    """Yield the differences that reject a valid object of another schema: lost fields, stricter rules."""
    if old.get("type") != new.get("type"):
        yield f"{path}: is {new.get('type')}, was {old.get('type')}"
    yield from (
        f"{path}.{name}: must be given now" for name in set(new.get("required", ())) - set(old.get("required", ()))
    )
    if "enum" in new and not set(old.get("enum", [None])) <= set(new["enum"]):
        yield f"{path}: fewer values are allowed"
    for names, worse in ((_LOWEST, operator.gt), (_HIGHEST, operator.lt)):
        yield from (
            f"{path}: {name}" for name in names if name in new and (name not in old or worse(new[name], old[name]))
        )
    if new.get("pattern") != old.get("pattern") and "pattern" in new:
        yield f"{path}: another pattern"
    rules = {validation["rule"] for validation in old.get("x-kubernetes-validations", ())}
    yield from (
        f"{path}: {validation['rule']}"
        for validation in new.get("x-kubernetes-validations", ())
        if validation["rule"] not in rules
    )
    for name, field in old.get("properties", {}).items():
        if name in new.get("properties", {}):
            yield from tightened(field, new["properties"][name], f"{path}.{name}")
        else:
            yield f"{path}.{name}: is gone"
    for name in ("items", "additionalProperties"):
        if isinstance(old.get(name), Mapping) and isinstance(new.get(name), Mapping):
            yield from tightened(old[name], new[name], f"{path}[]")


@pytest.mark.parametrize("name", DEFINITIONS)
def test_definitions_only_grow(name: str) -> None:
    """A new definition takes every object of the old one and loses no field: older services work on under it."""
    old, new = versions(before(name)), versions(now(name))
    assert set(old) <= set(new)
    for version, was in old.items():
        schema = new[version]["schema"]["openAPIV3Schema"]
        stricter = tightened(was["schema"]["openAPIV3Schema"], schema)
        assert [text for text in stricter if _WITHOUT_EFFECT not in text] == []
        assert new[version]["served"]
        assert new[version]["storage"] == was["storage"]


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"properties": {}}, ".a: is gone"),
        ({"required": ["a"]}, ".a: must be given now"),
        ({"properties": {"a": {"type": "string"}}}, ".a: is string, was integer"),
        ({"properties": {"a": {"type": "integer", "maximum": 5}}}, ".a: maximum"),
        ({"properties": {"a": {"type": "integer", "minimum": 1}}}, ".a: minimum"),
        ({"x-kubernetes-validations": [{"rule": "self.a > 1"}]}, ": self.a > 1"),
    ],
)
def test_tightening_is_found(change: Json, reported: str) -> None:
    old = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9}}}
    assert reported in list(tightened(old, {**old, **change}))
    assert list(tightened(old, old)) == []


@pytest.mark.helm
def test_values_are_still_values(helm: Helm, tmp_path: Path) -> None:
    """Whatever could be set in the previous chart can be set in this one: `--reset-then-reuse-values` goes through."""
    values_file = tmp_path / "values.yaml"
    values_file.write_text(before("values.yaml"))
    assert "kind: DaemonSet" in helm("template", "headroom", str(CHART), "-f", values_file)
    values_file.write_text(f"{before('values.yaml')}unheardOf: 1\n")
    with pytest.raises(CommandError, match="unheardOf"):
        helm("template", "headroom", str(CHART), "-f", values_file)
