"""Rules for `loadaware_estimator.json`."""

import json
import pkgutil
from typing import Any, Final

from tests.golden.adapters import FAMILIES, Adapter
from tests.golden.rules.rule import Deviation, Input, Rule

_FACTORS: Final = "scheduling.koordinator.sh/load-estimated-scaling-factors"


def _negative(amount: object) -> bool:
    return isinstance(amount, int) and amount < 0


def _annotated_factors(vector: Input) -> dict[str, Any]:
    text = (vector["pod"]["metadata"].get("annotations") or {}).get(_FACTORS, "{}")
    try:
        factors = json.loads(text)
    except ValueError:
        return {}
    return factors if isinstance(factors, dict) else {}


def _without_negative_factors(vector: Input, _theirs: Any) -> Any:  # noqa: ANN401
    """What we answer to the same pod without its negative factors."""
    adapter: Adapter = pkgutil.resolve_name(FAMILIES["loadaware_estimator"])["estimatePod"]
    kept = {name: factor for name, factor in _annotated_factors(vector).items() if not _negative(factor)}
    metadata = vector["pod"]["metadata"]
    annotations = {**metadata["annotations"], _FACTORS: json.dumps(kept)}
    return adapter({**vector, "pod": {**vector["pod"], "metadata": {**metadata, "annotations": annotations}}})


RULES: Final[tuple[Rule, ...]] = (
    Deviation(
        "loadaware_estimator",
        ("estimatePod",),
        "negative annotation factors are ignored",
        ours=_without_negative_factors,
        when=lambda vector: any(_negative(factor) for factor in _annotated_factors(vector).values()),
    ),
)
"""Its rules, those about scope first."""
