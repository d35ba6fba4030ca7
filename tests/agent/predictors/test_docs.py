"""The page about prediction against the code."""

import pkgutil
import re
from dataclasses import MISSING, fields
from pathlib import Path

from agent.prediction.reclaimable import reclaimable_terms
from agent.predictors import PREDICTORS

PAGE = (Path(__file__).parents[3] / "docs" / "prediction.md").read_text(encoding="utf-8")


def _json_name(name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def test_every_model_is_documented() -> None:
    """The table lists every model, with each of its parameters and its default."""
    rows = {match[1]: match[2] for match in re.finditer(r"^\| `([a-z0-9-]+)` \|(.*)$", PAGE, flags=re.MULTILINE)}
    assert rows.keys() == PREDICTORS.keys()
    rows["nsigma-v2"] += rows["nsigma-v1"]  # "the same"
    for name, target in PREDICTORS.items():
        for field in fields(pkgutil.resolve_name(target)):
            assert f"`{_json_name(field.name)}`" in rows[name]
            if field.default is not MISSING and isinstance(field.default, float):
                assert f"`{_json_name(field.name)}` {field.default:g} (" in rows[name], field.name


def test_worked_example_holds() -> None:
    """The numbers of the worked example are those that the formula gives."""
    example = {"allocatable": 15.5, "reserved": 0.5, "system_peak": 1.1 * 0.818, "prod_peak": 1.1 * 3.18 + 1}
    found = [
        reclaimable_terms(**example, warm_requests=warm, cold_requests=1.0, ratio=ratio).reclaimable
        for warm, ratio in ((10.0, 1.0), (14.5, 1.0), (10.0, 0.8))
    ]
    assert [round(amount, 1) for amount in found] == [6.5, 10.6, 4.5]
    for amount in found:
        assert f"{amount:.1f} cores" in PAGE
