"""Rules for `low_risk_overcommitment.json`."""

from typing import Any, Final

from tests.golden.rules.rule import INTERNALS, Deviation, Input, OutOfScope, Rule
from tests.golden.second_opinion import low_risk

_WHY: Final = "a node without metrics gets the score that its limits alone give, unless `parity: true`"

_IGNORED: Final = "what is no measurement (negative, above 1000 %) is left out, not cut to 0..100 %"


def _lacks_metrics(vector: Input) -> bool:
    names = [each["node"]["metadata"]["name"] for each in vector.get("nodes") or ()]
    return not (vector.get("args") or {}).get("parity") and not all(low_risk.metrics_of(vector, each) for each in names)


def _scores(vector: Input) -> list[dict[str, Any]]:
    return low_risk.scores(vector, parity=bool((vector.get("args") or {}).get("parity")))


def _best(vector: Input, _theirs: Any) -> dict[str, str]:  # noqa: ANN401
    return {"selectedNode": max(_scores(vector), key=lambda each: int(each["score"]))["name"]}


def _has_no_measurement(vector: Input) -> bool:
    names = [each["node"]["metadata"]["name"] for each in vector.get("nodes") or ()]
    return not all(low_risk.is_measurement(metric) for name in names for metric in low_risk.metrics_of(vector, name))


RULES: Final[tuple[Rule, ...]] = (
    OutOfScope("low_risk_overcommitment", ("beta_print",), INTERNALS),
    Deviation(
        "low_risk_overcommitment",
        ("score",),
        _WHY,
        ours=lambda vector, _theirs: {"scores": _scores(vector)},
        when=_lacks_metrics,
    ),
    Deviation("low_risk_overcommitment", ("schedule",), _WHY, ours=_best, when=_lacks_metrics),
    Deviation(
        "low_risk_overcommitment",
        ("score",),
        _IGNORED,
        ours=lambda vector, _theirs: {"scores": _scores(vector)},
        when=_has_no_measurement,
    ),
    Deviation("low_risk_overcommitment", ("schedule",), _IGNORED, ours=_best, when=_has_no_measurement),
)
"""Its rules, those about scope first."""
