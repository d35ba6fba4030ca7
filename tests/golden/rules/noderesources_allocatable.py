"""Rules for `noderesources_allocatable.json`."""

from typing import Any, Final

from tests.golden.rules.rule import Deviation, Input, Rule
from tests.golden.second_opinion import allocatable

_MODES: Final = ("Least", "Most")


def _bad_mode(vector: Input) -> bool:
    return (vector.get("args") or {}).get("mode", "") not in _MODES


def _says_the_modes(_vector: Input, theirs: Any) -> dict[str, str]:  # noqa: ANN401
    text = theirs["error"]
    plain = "invalid support ModeType"
    return {"error": text.replace(plain, f"{plain}: must be Least or Most")}


def _without_arguments(vector: Input) -> bool:
    return vector.get("args") is None


RULES: Final[tuple[Rule, ...]] = (
    Deviation(
        "noderesources_allocatable",
        ("new_plugin",),
        "without any arguments the defaults hold, and not no mode at all",
        ours=lambda _vector, _theirs: {"error": None, "mode": "Least"},
        when=_without_arguments,
    ),
    Deviation(
        "noderesources_allocatable",
        ("score",),
        "without any arguments the defaults hold, and not no mode at all",
        ours=lambda vector, _theirs: {"scores": allocatable.scores(vector)},
        when=_without_arguments,
    ),
    Deviation(
        "noderesources_allocatable",
        ("validate", "new_plugin"),
        "the message on a mode also says which there are",
        ours=_says_the_modes,
        when=_bad_mode,
    ),
)
"""Its rules, those about scope first."""
