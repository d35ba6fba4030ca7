"""Rules for `low_risk_overcommitment.json`."""

from typing import Any, Final

from tests.golden.rules.rule import INTERNALS, Deviation, Input, OutOfScope, Rule
from tests.golden.second_opinion import low_risk

_WHY: Final = "a node without metrics gets the score that its limits alone give, unless `parity: true`"


def _lacks_metrics(vector: Input) -> bool:
    names = [each["node"]["metadata"]["name"] for each in vector.get("nodes") or ()]
    return not (vector.get("args") or {}).get("parity") and not all(low_risk.metrics_of(vector, each) for each in names)


def _best(vector: Input, _theirs: Any) -> dict[str, str]:  # noqa: ANN401
    return {"selectedNode": max(low_risk.scores(vector), key=lambda each: int(each["score"]))["name"]}


RULES: Final[tuple[Rule, ...]] = (
    OutOfScope("low_risk_overcommitment", ("beta_print",), INTERNALS),
    Deviation(
        "low_risk_overcommitment",
        ("score",),
        _WHY,
        ours=lambda vector, _theirs: {"scores": low_risk.scores(vector)},
        when=_lacks_metrics,
    ),
    Deviation("low_risk_overcommitment", ("schedule",), _WHY, ours=_best, when=_lacks_metrics),
)
"""Its rules, those about scope first."""
