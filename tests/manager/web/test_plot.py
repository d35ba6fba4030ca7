"""Lines, axes and texts of plots."""

import html
import json
import re

import numpy as np
import pytest

from manager.web import figures
from manager.web import plot as plots
from manager.web.history import WIDTH, History, Plot, Series, at
from manager.web.html import Html, join, tag
from tests.support.objects import NOW


def _plot(*values: float, series: Series = Series.USED) -> Plot:
    table = np.full((WIDTH, len(values)), np.nan, np.float32)
    table[at(series, "cpu")] = values
    return Plot(np.arange(len(values), dtype=np.int64) * 60, table)


def test_gaps_are_not_bridged() -> None:
    """Where nothing is known no line is drawn, and a single point is a dot."""
    drawn = str(plots.figure("n", "cpu", "2h", _plot(*[1.0] * 5, *[np.nan] * 5, *[2.0] * 4, np.nan, 3.0)))
    line = re.search(r'class="line used" d="([^"]*)"', drawn)
    assert line is not None
    assert line[1].count("M") == 2
    assert 'class="line dot used"' in drawn
    assert "nan" not in drawn


@pytest.mark.parametrize(
    ("newest", "shown"), [((1.0, 2.0), [1.0, 2.0]), ((1.0, np.nan), [0.5, 1.0]), ((np.nan, np.nan), [None, None])]
)
def test_step_that_has_just_begun(newest: tuple[float, float], shown: list[float | None]) -> None:
    """A step without any number yet is left out, so that a plot ends with one that is known; a real gap is shown."""
    drawn = str(plots.figure("n", "cpu", "2h", _plot(*[0.5] * 18, *newest)))
    values = re.search(r'data-values="([^"]*)"', drawn)
    assert values is not None
    assert json.loads(html.unescape(values[1]))["used"][-2:] == shown


def test_nothing_known_is_said() -> None:
    """Also to those who do not see the plot."""
    drawn = str(plots.figure("n", "cpu", "2h", History().plot("n", "2h", NOW)))
    assert "Nothing is known yet" in drawn
    assert "nothing is known yet" in drawn


def test_bars_stay_inside() -> None:
    """A bar whose numbers exceed what is allocatable ends at its end; without that there is no bar."""
    numbers = {Series.ALLOCATABLE: 4.0, Series.USED: 9.0, Series.PEAK: 8.0, Series.PUBLISHED: 1.0}
    bar = plots.bullet("cpu", lambda series, _: numbers.get(series), "all")
    assert max(float(each) for each in re.findall(r' width="([\d.]+)"', str(bar))) == 100.0
    assert plots.bullet("cpu", lambda *_: None, "none") is None


@pytest.mark.parametrize(
    ("resource", "number", "text"),
    [
        ("cpu", None, "–"),  # noqa: RUF001
        ("cpu", 0.0, "0 cores"),
        ("cpu", 0.003, "3m"),
        ("cpu", 3.256, "3.26 cores"),
        ("cpu", 12.34, "12.3 cores"),
        ("cpu", 12345.6, "12,346 cores"),
        ("memory", 0.25, "256 MiB"),
        ("memory", 9.2, "9.2 GiB"),
        ("memory", 2048.0, "2 TiB"),
    ],
)
def test_numbers_have_three_digits(resource: str, number: float | None, text: str) -> None:
    assert figures.amount(resource, number) == text


def test_html_escapes() -> None:
    assert tag("a", "<b>", tag("i", 1), None, href='"x"', title=None, hidden=True, data_a=0) == (
        '<a href="&quot;x&quot;" hidden data-a="0">&lt;b&gt;<i>1</i></a>'
    )
    assert tag("input", name="q") == '<input name="q">'
    assert isinstance(join("&"), Html)
