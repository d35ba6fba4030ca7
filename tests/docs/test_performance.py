"""docs/performance.md has what tools/bench/results/results.json has, for every part there is."""

import pytest

from tools.bench import page
from tools.bench.parts import PARTS
from tools.bench.results import load


def test_page_has_the_results() -> None:
    """What the page shows is what was measured: `python -m tools.bench.page` would change nothing."""
    text = page.PAGE.read_text()
    assert page.rewritten(text, load(page.RESULTS)) == text
    assert "| yes |" in text


def test_page_has_every_part() -> None:
    """Each part has one place on the page, and so has the summary."""
    assert sorted(page.places(page.PAGE.read_text())) == sorted([*PARTS, page.SUMMARY])


def test_pictures_are_there() -> None:
    """Each picture of the results is beside them, and nothing else is."""
    items = [one for part in load(page.RESULTS).values() for one in part["items"]]
    assert {one["name"] for one in items if one["kind"] == "picture"} == {
        path.stem for path in page.RESULTS.glob("*.svg")
    }


def test_places_are_of_parts() -> None:
    """A part that was never measured is shown as such; a place for what is not measured is a mistake of the page."""
    found = page.rewritten("<!-- measured: week -->\n<!-- end -->\n", {})
    assert "`week` was not measured yet: a simulated week, about 3 min." in found
    with pytest.raises(KeyError):
        page.rewritten("<!-- measured: nothing -->\n<!-- end -->\n", {})
