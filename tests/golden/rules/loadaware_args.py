"""Rules for `loadaware_args.json`."""

from typing import Any, Final

from tests.golden.rules.rule import Deviation, Input, Rule


def _negative(amount: object) -> bool:
    return isinstance(amount, int) and amount < 0


def _arguments_we_check(vector: Input) -> bool:
    arguments = vector.get("args") or {}
    thresholds = (arguments.get("prodUsageThresholds") or {}).values()
    seconds = ("estimatedSecondsAfterPodScheduled", "estimatedSecondsAfterInitialized")
    return any(not 0 <= percent <= 100 for percent in thresholds) or any(
        _negative(arguments.get(name)) for name in seconds
    )


def _renamed_field(_input: Input, theirs: Any) -> Any:  # noqa: ANN401
    names = {"nodeMetricExpiredSeconds": "nodeMetricExpirationSeconds"}
    return {
        **theirs,
        "errors": [{**error, "field": names.get(error["field"], error["field"])} for error in theirs["errors"]],
    }


RULES: Final[tuple[Rule, ...]] = (
    Deviation(
        "loadaware_args",
        ("validate",),
        "our field names are the JSON names",
        ours=_renamed_field,
        when=lambda vector: (vector.get("args") or {}).get("nodeMetricExpirationSeconds") is not None,
    ),
    Deviation(
        "loadaware_args",
        ("validate",),
        "prodUsageThresholds and the two estimated seconds are validated, too",
        ours=lambda _input, _theirs: {"valid": False},
        when=_arguments_we_check,
    ),
)
"""Its rules, those about scope first."""
