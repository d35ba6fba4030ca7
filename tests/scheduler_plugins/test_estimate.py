"""The estimated usage of a pod, and amounts as integers."""

import json
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import names
from crds.quantity import QuantityError, milli_value, value
from scheduler_plugins.snapshot.estimate import (
    LoadRules,
    estimate_node,
    estimate_pod,
    estimate_vector,
    estimation_window,
)
from scheduler_plugins.snapshot.units import LARGEST, round_half_away, units
from tests.fuzz.strength import fuzz
from tests.scheduler_plugins.objects import NOW, Json, node, pod

DEFAULTS = LoadRules()
CUSTOM = LoadRules(allow_customize=True)


@pytest.mark.parametrize(
    ("item", "cpu", "memory"),
    [
        (pod(), 250, 209715200),  # no requests: 250m and 200 MiB, unscaled
        (pod(requests={"cpu": "4", "memory": "8Gi"}), 3400, 6012954214),
        (pod(requests={"cpu": "4"}, limits={"cpu": "8"}), 6800, 209715200),  # the limit is larger: it is scaled
        (pod(limits={"cpu": "4", "memory": "8Gi"}), 3400, 6012954214),  # limits alone
        (pod(requests={"cpu": "10m"}), 9, 209715200),  # 8.5 rounds away from zero
        (pod(requests={"cpu": "0"}), 250, 209715200),  # zero counts as no request
        (pod(priority=7500, requests={names.MID_CPU: "4k", names.MID_MEMORY: "1Gi"}), 3400, 751619277),
        (pod(priority=7500), 250, 209715200),  # no requests of its tier either
        (pod(priority=5500), 250, 209715200),
        (pod(priority=7500, requests={"cpu": "4", "memory": "8Gi"}), 3400, 6012954214),  # native resources count
        (pod(priority=3500, requests={"cpu": "4"}), 3400, 209715200),  # also of Free, which has no resources of its own
        (pod(priority=5500, requests={names.BATCH_CPU: "1k", "cpu": "4"}), 3400, 209715200),  # the larger of both
        (pod(priority=7500, requests={names.MID_CPU: "1k", "cpu": "0"}, limits={"cpu": "2"}), 850, 209715200),  # ours
    ],
)
def test_estimate_follows_class(item: Json, cpu: int, memory: int) -> None:
    assert estimate_pod(item, DEFAULTS) == {"cpu": cpu, "memory": memory}


def test_limit_caps_estimate() -> None:
    item = pod(requests={"cpu": "4"}, limits={"cpu": "4"})
    assert estimate_pod(item, LoadRules(factors={"cpu": 110})) == {"cpu": 4000}


def _annotated(factors: str) -> Json:
    item = pod(requests={"cpu": "4", "memory": "8Gi"})
    item["metadata"]["annotations"] = {names.ANNOTATION_ESTIMATED_SCALING_FACTORS: factors}
    return item


@pytest.mark.parametrize("label", [names.LABEL_PRIORITY_CLASS, names.LABEL_QOS])
@pytest.mark.parametrize("value", ["koord-prod", "koord-mid", "koord-batch", "koord-free", "BE", "SYSTEM", "", "other"])
@pytest.mark.parametrize("requests", [{}, {"cpu": "4", "memory": "8Gi"}])
def test_label_lowers_no_estimate(label: str, value: str, requests: Json) -> None:
    labelled = pod(requests=requests)
    labelled["metadata"]["labels"] = {label: value}
    assert estimate_pod(labelled, DEFAULTS) == estimate_pod(pod(requests=requests), DEFAULTS)


@pytest.mark.parametrize(
    ("factors", "cpu"),
    [
        ('{"cpu": 50}', 2000),
        ('{"cpu": 200}', 8000),  # above 100 is allowed for the pod itself
        ('{"cpu": 0}', 0),
        ('{"cpu": -50}', 3400),  # negative usage does not exist: the rule's factor counts
        ('{"cpu": 50.5}', 3400),  # no integer
        ('{"cpu": 50, "memory": "x"}', 3400),  # one bad value spoils the annotation
        ('{"cpu": true}', 3400),
        ('{"cpu": null}', 0),  # Go reads null as zero
        ('{"cpu": 9223372036854775808}', 3400),  # no integer of 64 bits: as if not there
        ('{"cpu": 9223372036854775807}', 2**53),  # the largest amount that can be added up
        ("[1]", 3400),
        ("{", 3400),
        ("[" * 100_000, 3400),
    ],
)
def test_annotation_replaces_factors(factors: str, cpu: int) -> None:
    assert estimate_pod(_annotated(factors), CUSTOM)["cpu"] == cpu
    assert estimate_pod(_annotated(factors), DEFAULTS)["cpu"] == 3400  # without allowCustomizeEstimation


def test_annotation_may_name_further_resources() -> None:
    item = _annotated('{"x.io/gpu": 50}')
    item["spec"]["containers"][0]["resources"]["requests"]["x.io/gpu"] = "4"
    assert estimate_pod(item, CUSTOM) == {"cpu": 3400, "memory": 6012954214, "x.io/gpu": 2}
    assert estimate_vector(item, replace(CUSTOM, resources=("cpu", "x.io/gpu"))) == (3400, 2)


SCHEDULED = NOW - 60


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30", SCHEDULED + 30),
        ("+30", SCHEDULED + 30),
        ("0", None),  # switches the rule's window off
        ("-5", SCHEDULED + 180),  # invalid: the rule's
        ("1m", SCHEDULED + 180),
        ("1_0", SCHEDULED + 180),
        ("9" * 19, SCHEDULED + 180),  # more than 64 bits
        ("9" * 5000, SCHEDULED + 180),
    ],
)
def test_window_follows_annotation(text: str, expected: float | None) -> None:
    item = pod()
    item["metadata"]["annotations"] = {names.ANNOTATION_ESTIMATED_SECONDS_AFTER_SCHEDULED: text}
    rules = LoadRules(seconds_after_scheduled=180, allow_customize=True)
    assert estimation_window(item, rules).end(SCHEDULED) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"cpu": "32"}, {"cpu": "32", "memory": "100Gi"}),  # key by key
        ({"x.io/y": 3}, {"cpu": "100", "memory": "100Gi", "x.io/y": 3}),  # JSON numbers are quantities
        ({"cpu": "lots"}, {"cpu": "100", "memory": "100Gi"}),  # unreadable: as if it were not there
        ({"cpu": ""}, {"cpu": "100", "memory": "100Gi"}),
        ({"cpu": None}, {"cpu": "0", "memory": "100Gi"}),  # Go reads null as zero
        ({"cpu": " 2 "}, {"cpu": "2", "memory": "100Gi"}),  # and passes over blanks
    ],
)
def test_raw_allocatable_overlays(raw: dict[str, Any], expected: dict[str, Any]) -> None:
    item = node(annotations={names.ANNOTATION_RAW_ALLOCATABLE: json.dumps(raw)})
    assert estimate_node(item)[0] == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"cpu": "-1"}', "cpu: '-1' is negative"),
        ('{"memory": -1e308}', "memory: '-1e+308' is negative"),
        ('{"cpu": "lots"}', "cpu: 'lots' is not a quantity"),
        ("[1]", "[1] is not an object"),
        ("{" + " " * 5000 + "}", "longer than 4096 characters"),
    ],
)
def test_bad_raw_allocatable_is_named(text: str, says: str) -> None:
    allocatable, problem = estimate_node(node(annotations={names.ANNOTATION_RAW_ALLOCATABLE: text}))
    assert allocatable == {"cpu": "100", "memory": "100Gi"}
    assert problem.startswith(f"annotation {names.ANNOTATION_RAW_ALLOCATABLE} is ignored: {says}")


SUFFIXES = ("", "m", "u", "n", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", ".5", ".5Gi")


@fuzz(number=st.integers(0, 10**17), suffix=st.sampled_from(SUFFIXES), sign=st.sampled_from(["", "-", "+"]))
def test_quick_is_exact(number: int, suffix: str, sign: str) -> None:
    text = f"{sign}{number}{suffix}"
    for resource, exact in (("cpu", milli_value(text)), ("memory", value(text))):
        if exact < 0:
            with pytest.raises(QuantityError, match=f"{resource}: .* is negative"):
                units(resource, text)
        else:
            assert units(resource, text) == min(exact, LARGEST)


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        ("cpu", "250m", 250),
        ("cpu", "1500u", 2),  # rounded up
        ("cpu", "1n", 1),
        ("cpu", "3", 3000),
        ("cpu", "1Ki", 1_024_000),
        ("memory", "1500m", 2),
        ("memory", "3Gi", 3 * 2**30),
        ("memory", "1u", 1),
        ("memory", "9Ei", LARGEST),
    ],
)
def test_usual_forms(resource: str, text: str, amount: int) -> None:
    assert units(resource, text) == amount


@pytest.mark.parametrize("text", ["", "m", "Gi", "\u0663", "1_000", " 1"])
def test_not_a_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        units("cpu", text)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (64.5, 65),  # half to even would give 64
        (65.49, 65),
        (65.5, 66),
        (-64.5, -65),  # away from zero, not up
        (0.49999999999999994, 0),  # adding 0.5 would reach 1
        (28500 / 100000 * 100, 28),  # 28.499999999999996 in doubles
        (4503599627370497.0, 4503599627370497),  # beyond 2^52 every double is an integer
    ],
)
def test_halves_leave_zero(number: float, expected: int) -> None:
    assert round_half_away(number) == expected


@given(st.floats(-1e15, 1e15))
def test_rounding_matches_decimal(number: float) -> None:
    assert round_half_away(np.array([number]))[0] == int(Decimal(number).quantize(Decimal(1), ROUND_HALF_UP))
