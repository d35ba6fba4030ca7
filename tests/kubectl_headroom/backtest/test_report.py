"""The backtest's JSON: a stable document for programs."""

import json
from dataclasses import replace

from kubectl_headroom.backtest import policies
from kubectl_headroom.backtest.engine import Plan
from kubectl_headroom.backtest.placement import Churn
from kubectl_headroom.backtest.report import description, document, dominating_policy, ranked
from kubectl_headroom.backtest.text import answers
from tests.kubectl_headroom.backtest.results import DAY, report, result, trace

RESULT_KEYS = [
    "policy",
    "resource",
    "horizonSeconds",
    "machines",
    "seed",
    "violationPercent",
    "severityPercent",
    "savingsPercent",
]


def test_document_keeps_its_contract() -> None:
    """A result has these keys, in this order, with worked figures: percent, means over machines, weighed savings."""
    matches = result("sum-max", [0.0, 1.0, 2.0, 5.0], [50.0, 60.0, 70.0, 80.0], [1.0, 1.0, 1.0, 5.0])
    (made,) = document(report([matches]))["results"]
    assert list(made) == RESULT_KEYS
    assert made == {
        "policy": "sum-max",
        "resource": "cpu",
        "horizonSeconds": 86_400,
        "machines": 4,
        "seed": 0,
        "violationPercent": {"mean": 2.0, "p50": 1.5, "p90": 4.1},
        "severityPercent": 0.2,
        "savingsPercent": 72.5,  # (50 + 60 + 70 + 5 * 80) / 8
    }


def test_seed_records_its_packing() -> None:
    """A seed is a number, several are a list, and the real placement has none."""
    seeds = [
        document(report([result("sum-max", [1.0, 1.0], [1.0, 1.0], seeds=inputs)]))["results"][0]["seed"]
        for inputs in [(3,), (0, 1), ()]
    ]
    assert seeds == [3, [0, 1], None]


def test_document_can_be_repeated() -> None:
    """It has the whole policies, the traces, the plan, the assumptions and the figures' meaning, all as JSON."""
    churn = Churn(mean_life_seconds=7.0 * DAY, slots_per_machine=12, comes_back_percent=50.0)
    plan = Plan(machines=2, seeds=(0,), horizons_seconds=(DAY,), warm_up_seconds=3600, churn=churn)
    matches = report([result("sum-max", [1.0], [1.0])], plan, (trace(notes=("One was left out.",)),))
    made = document(matches)
    assert json.loads(json.dumps(made)) == made
    assert (made["kind"], made["version"]) == ("Backtest", 1)
    assert made["plan"]["churn"] == {
        "meanLifeSeconds": 604_800.0,
        "slotsPerMachine": 12,
        "comesBackPercent": 50.0,
        "comesBackOnAny": False,
    }
    assert made["plan"]["warmUpSeconds"] == 3600
    again = policies.of_file(json.dumps(made["policies"]["sum-max"]), "again")
    assert again.policy == matches.choices[0].policy
    assert made["traces"][0]["series"] == 2
    assert made["notes"] == ["One was left out."]
    assert {"violationPercent", "severityPercent", "savingsPercent", "oracle"} <= made["definitions"].keys()


def test_safest_come_first() -> None:
    """Rows are sorted by resource and horizon, then violation, then savings; the oracle is first."""
    rows = [
        result("a", [2.0], [50.0]),
        result("b", [1.0], [10.0]),
        result("c", [1.0], [20.0]),
        result("oracle", [0.0], [90.0]),
        result("d", [0.0], [0.0]),
        result("a", [0.0], [1.0], horizon=3600),
        result("a", [0.0], [1.0], resource="memory"),
    ]
    shown = [(entry.resource, entry.horizon_seconds, entry.policy) for entry in ranked(rows)]
    assert shown == [
        ("cpu", 3600, "a"),
        *(("cpu", DAY, name) for name in ("oracle", "d", "c", "b", "a")),
        ("memory", DAY, "a"),
    ]


def test_beaten_policies_are_named() -> None:
    """A policy is dominated by one that is at least as safe and saves at least as much; not by an equal one."""
    best, worse, equal = result("best", [1.0], [60.0]), result("worse", [2.0], [50.0]), result("equal", [1.0], [60.0])
    safer, bolder = result("safer", [0.5], [40.0]), result("bolder", [9.0], [70.0])
    oracle = result("oracle", [0.0], [90.0])
    everywhere = [best, worse, equal, safer, bolder, oracle, result("far", [0.0], [99.0], horizon=3600)]
    assert {entry.policy: dominating_policy(entry, everywhere) for entry in everywhere} == {
        "best": "",
        "worse": "best",
        "equal": "",
        "safer": "",
        "bolder": "",
        "oracle": "",
        "far": "",
    }


def test_policy_is_reported_in_a_line() -> None:
    """Model, parameters, margin and cold period, for each resource where they differ."""
    models = [{"model": "sum-max"}, {"model": "diversity", "parameters": {"lambdaMin": 0.5}}, {"model": "nsigma-v1"}]
    whole = {"model": "max", "of": models, "safetyMarginPercent": 5, "coldStartPeriodSeconds": 43200}
    (same,) = policies.parse([json.dumps(whole)])
    assert description(same) == (
        "max(sum-max windowDays 7, diversity windowDays 14, lambdaMin 0.5, nsigma-v1 n 3, capAtHighest true), "
        "margin 5 %; cold for 12h"
    )
    differs = policies.of_file(
        '{"model": "sum-max", "safetyMarginPercent": 0, "coldStartPeriodSeconds": 86400,'
        ' "cpu": {"model": "diversity", "parameters": {"windowDays": 3}}}',
        "x",
    )
    assert description(differs) == (
        "cpu: diversity windowDays 3, lambdaMin 0.4, margin 0 %; memory: sum-max windowDays 7, margin 0 %; cold for 24h"
    )


def test_choice_of_a_model_is_reported() -> None:
    """Parameters that a model chooses by resource are not shown as if the user had named them."""
    (usual,) = policies.parse(["percentile:margin=0"])
    assert description(usual) == "percentile as usual, margin 0 %; cold for 24h"


def test_answers_state_share_by_target() -> None:
    """A sentence for each resource and horizon; a target that was not kept is named as such."""
    other = result("diversity", [0.0], [1.0])
    results = (result("target:0.5,24h", [0.4], [60.0]), result("target:2,24h", [2.5], [64.0]), other)
    made = replace(report([other]), choices=tuple(policies.targets((0.5, 2.0), (DAY,))), results=results)
    (sentence,) = answers(made)
    assert sentence == (
        "If Mid pods should be able to stay for 24h, these shares of the cpu limits can be published: "
        "60.0% at a target of 0.5% (measured 0.40%); 64.0% at a target of 2% (measured 2.50%, above it)."
    )
