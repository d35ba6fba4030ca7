"""Rules for `loadaware_args.json`."""

from typing import Any, Final

from tests.golden.rules.rule import Deviation, Input, Rule

_FIELDS: Final = {"nodeMetricExpiredSeconds": "nodeMetricExpirationSeconds"}
"""Their names in messages -> the names in JSON."""
_BEFORE: Final = ("nodeMetricExpirationSeconds", "resourceWeights", "dominantResourceWeight", "usageThresholds")
"""What is complained about before `prodUsageThresholds`; both seconds come before `aggregated`."""
_SECONDS: Final = ("estimatedSecondsAfterPodScheduled", "estimatedSecondsAfterInitialized")


def _negative(amount: object) -> bool:
    return isinstance(amount, int) and amount < 0


def _checked_by_us(vector: Input) -> list[str]:
    """The arguments that are wrong, and that the peer does not check."""
    arguments = vector.get("args") or {}
    thresholds = (arguments.get("prodUsageThresholds") or {}).values()
    wrong = ["prodUsageThresholds"] if any(not 0 <= percent <= 100 for percent in thresholds) else []
    return wrong + [name for name in _SECONDS if _negative(arguments.get(name))]


def _ours(vector: Input, theirs: Any) -> Any:  # noqa: ANN401
    """Their errors under the names of the arguments, with ours in between."""
    wrong = _checked_by_us(vector)
    if "errors" not in theirs:
        return {**theirs, "valid": bool(theirs.get("valid")) and not wrong}
    renamed = [{**error, "field": _FIELDS.get(error["field"], error["field"])} for error in theirs["errors"]]
    first = [error for error in renamed if error["field"] in _BEFORE]
    last = [error for error in renamed if error["field"].startswith("aggregated.")]
    between = [error for error in renamed if error not in (*first, *last)]
    prod = [name for name in wrong if name not in _SECONDS]
    seconds = [name for name in wrong if name in _SECONDS]
    errors = [*first, *_invalid(prod), *between, *_invalid(seconds), *last]
    return {**theirs, "valid": not errors, "errors": errors}


def _invalid(names: list[str]) -> list[dict[str, str]]:
    return [{"field": name, "type": "FieldValueInvalid"} for name in names]


RULES: Final[tuple[Rule, ...]] = (
    Deviation(
        "loadaware_args",
        ("validate", "defaults"),
        "prodUsageThresholds and the two estimated seconds are validated, too",
        ours=_ours,
        when=lambda vector: bool(_checked_by_us(vector)),
    ),
    Deviation(
        "loadaware_args",
        ("validate",),
        "our field names are the JSON names",
        ours=_ours,
        when=lambda vector: (vector.get("args") or {}).get("nodeMetricExpirationSeconds") is not None,
    ),
)
"""Its rules, those about scope first."""
