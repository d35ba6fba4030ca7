"""The manifests say the same as the types, field by field, and the chart carries the same manifests."""

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds import cluster_colocation_profile, colocation, elastic_quota, node_metric, predict_policy
from crds.codec import json_fields
from crds.ranges import Range

ROOT = Path(__file__).parents[2]
KINDS: dict[str, tuple[Any, str, str, str]] = {
    "node_metric": (node_metric.NodeMetric, node_metric.GROUP, node_metric.VERSION, node_metric.PLURAL),
    "cluster_colocation_profile": (
        cluster_colocation_profile.ClusterColocationProfile,
        cluster_colocation_profile.GROUP,
        cluster_colocation_profile.VERSION,
        cluster_colocation_profile.PLURAL,
    ),
    "elastic_quota": (elastic_quota.ElasticQuota, elastic_quota.GROUP, elastic_quota.VERSION, elastic_quota.PLURAL),
}
OPEN = {"x-kubernetes-preserve-unknown-fields"}


def _manifest(stem: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "crds" / f"{stem}.yaml").read_text(encoding="utf-8"))
    return content


def _schema(stem: str) -> dict[str, Any]:
    schema: dict[str, Any] = _manifest(stem)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _differences(hint: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:  # noqa: ANN401
    """Where a type and a schema disagree, each as a sentence."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        yield from _differences(next(part for part in arguments if part is not type(None)), schema, path)
    elif origin is typing.Annotated:
        if not schema.get("x-kubernetes-int-or-string"):
            yield f"{path}: the type says quantity, the schema {schema}"
    elif origin is tuple:
        yield from _expect(schema, "array", path)
        yield from _differences(arguments[0], schema.get("items", {}), f"{path}[]")
    elif origin is not None:  # a mapping
        yield from _expect(schema, "object", path)
        if arguments[1] is not Any:
            yield from _differences(arguments[1], schema.get("additionalProperties", {}), f"{path}.*")
    elif dataclasses.is_dataclass(hint):
        yield from _expect(schema, "object", path)
        yield from _object_differences(typing.cast("type", hint), schema, path)
    else:
        names = {str: "string", int: "integer", float: "number", bool: "boolean"}
        yield from _expect(schema, names[hint], path)


def _expect(schema: Mapping[str, Any], wanted: str, path: str) -> Iterator[str]:
    if schema.get("type") != wanted:
        yield f"{path}: the type says {wanted}, the schema {schema.get('type')}"


def _object_differences(cls: type, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if path == ".metadata":
        return
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = json_fields(cls)
    properties = {
        name: inner
        for name, inner in schema.get("properties", {}).items()
        if path or name not in ("apiVersion", "kind")
    }
    for name in sorted(fields.keys() ^ properties.keys()):
        yield f"{path}.{name}: only in the {'type' if name in fields else 'schema'}"
    required = {name for name, field in fields.items() if field.default is field.default_factory is dataclasses.MISSING}
    if path and required != set(schema.get("required", ())):
        yield f"{path}: the type requires {sorted(required)}, the schema {sorted(schema.get('required', ()))}"
    for name in fields.keys() & properties.keys():
        yield from _differences(hints[fields[name].name], properties[name], f"{path}.{name}")


@pytest.mark.parametrize("stem", KINDS)
def test_manifest_matches_type(stem: str) -> None:
    """Every field is in both, with the same name, type and obligation."""
    assert list(_differences(KINDS[stem][0], _schema(stem), "")) == []


@pytest.mark.parametrize("stem", KINDS)
def test_manifest_names_match(stem: str) -> None:
    """Group, version, kind and plural of the manifest are those of the type."""
    kind, group, version, plural = KINDS[stem]
    spec = _manifest(stem)["spec"]
    assert (spec["group"], spec["names"]["kind"], spec["names"]["plural"]) == (group, kind.KIND, plural)
    assert [entry["name"] for entry in spec["versions"]] == [version]
    assert f"{group}/{version}" == kind.API_VERSION


def test_every_manifest_has_a_type() -> None:
    """Each YAML file beside the types belongs to one of them."""
    assert {file.stem for file in (ROOT / "crds").glob("*.yaml")} == KINDS.keys()


@pytest.mark.parametrize("stem", KINDS)
def test_chart_carries_the_manifest(stem: str) -> None:
    """The chart's copy of a manifest is the manifest, byte for byte."""
    copy = ROOT / "charts" / "headroom" / "crds" / f"{stem}.yaml"
    assert copy.read_bytes() == (ROOT / "crds" / f"{stem}.yaml").read_bytes()


def test_schema_bounds_match_ranges() -> None:
    """The bounds of predictPolicy in the schema are the ranges that the manager checks."""
    properties = _schema("node_metric")["properties"]["spec"]["properties"]["predictPolicy"]["properties"]
    bounds = {
        name: Range(inner["minimum"], inner["maximum"]) for name, inner in properties.items() if "minimum" in inner
    }
    assert bounds == {name: rule for name, rule in predict_policy.RANGES.items() if isinstance(rule, Range)}
    for part in ("cpu", "memory"):
        margin = properties[part]["properties"]["safetyMarginPercent"]
        assert Range(margin["minimum"], margin["maximum"]) == predict_policy.RANGES["safetyMarginPercent"]


def test_schema_rules_match_faults() -> None:
    """The schema bounds names and lists as the rules of parser, webhook, CLI and agents do, and has no others."""
    policy = _schema("node_metric")["properties"]["spec"]["properties"]["predictPolicy"]
    parts = [policy, policy["properties"]["cpu"], policy["properties"]["memory"]]
    assert [len(part["x-kubernetes-validations"]) for part in parts] == [2, 1, 1]
    below = [part["properties"]["of"]["items"] for part in parts]
    for entry in (*parts, *below):
        name, listed = entry["properties"]["model"], entry["properties"]["of"]
        assert (name["minLength"], name["maxLength"]) == (1, predict_policy.LONGEST_NAME)
        assert listed["maxItems"] == predict_policy.MOST_MODELS
        assert entry["properties"]["parameters"]["x-kubernetes-preserve-unknown-fields"]


def test_memory_policies_match() -> None:
    """The sources of memory usage have the same names in the schema and in the ConfigMap."""
    policy = _schema("node_metric")["properties"]["spec"]["properties"]["metricCollectPolicy"]["properties"]
    allowed = colocation.ALLOWED["metricMemoryCollectPolicy"]
    assert all(allowed.allows(name) for name in policy["nodeMemoryCollectPolicy"]["enum"])
    assert set(policy["nodeMemoryCollectPolicy"]["enum"]) == set(node_metric.MEMORY_COLLECT_POLICIES)


def test_columns_point_into_schema() -> None:
    """Every printer column of both kinds reads a field that exists."""
    for stem in KINDS:
        for column in _manifest(stem)["spec"]["versions"][0]["additionalPrinterColumns"]:
            schema: Any = {**_schema(stem)}
            for step in column["jsonPath"].split("[")[0].strip(".").split("."):
                if step == "creationTimestamp":
                    break
                schema = schema.get("properties", {}).get(step) or schema.get("additionalProperties")
                assert schema or step == "metadata", column["jsonPath"]
