from tests.docs.configuration import PAGE, groups, rewritten
from tests.support.config_fields import every_field


def test_page_is_made_from_types() -> None:
    """The page's tables match the types; `make docs` writes them."""
    text = PAGE.read_text(encoding="utf-8")
    assert rewritten(text) == text


def test_every_field_has_its_place() -> None:
    """The page has a part for each group of fields, and every field is listed there or by its own parts."""
    text, listed_groups = PAGE.read_text(encoding="utf-8"), groups()
    assert all(text.count(f"<!-- fields: {group} -->\n") == 1 for group in listed_groups)
    listed = {field.path for fields in listed_groups.values() for field in fields}
    rest = {field.path for field in every_field()} - listed
    assert {path for path in rest if not path.startswith(("nodePredictPolicy.cpu", "nodePredictPolicy.memory"))} == {
        "metricAggregatePolicy",
        "hotNodes",
        "midEviction",
        "nodeConfigs",
        "nodePredictPolicy",
    }


def test_stale_table_is_found() -> None:
    stale = "before\n<!-- fields: evicting -->\n| `midEviction.mode` | on |\n<!-- end -->\nafter\n"
    made = rewritten(stale)
    assert made.startswith("before\n<!-- fields: evicting -->\n| field | default | allowed | meaning |\n")
    assert "| `midEviction.mode` | dry-run | off, dry-run, on | " in made
    assert made.endswith("<!-- end -->\nafter\n")
