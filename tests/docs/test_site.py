"""The documentation site: its navigation, its links, and its build where MkDocs is installed."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.pages import PAGES, ROOT, anchors
from tools import docs_hooks

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


class Config(dict[str, Any]):
    """The part of MkDocs' configuration that the hooks change."""

    def __init__(self) -> None:
        self.nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
        self.mdx_configs: dict[str, Any] = {"toc": {}}


def pages_of(nav: Any) -> list[str]:  # noqa: ANN401 - lists, dicts and texts
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav.values() if isinstance(nav, dict) else nav) for page in pages_of(part)]


def test_navigation_has_each_page_once() -> None:
    """The pages of docs/, and of copies only those that exist."""
    listed = pages_of(docs_hooks.on_config(Config()).nav)
    written = [docs_hooks.source_of(page) for page in PAGES if page.startswith("docs/")]
    assert sorted(page for page in listed if not page.startswith("repository/")) == sorted(written)
    copies = {docs_hooks.path_of(page) for page in listed if page.startswith("repository/")}
    assert copies <= set(docs_hooks.copied())


def test_sections_of_the_navigation() -> None:
    assert CONFIG["nav"][0] == "README.md"
    sections = [name for entry in CONFIG["nav"][1:] for name in entry]
    assert sections == ["Tutorials", "How-to", "Concepts", "Reference", "Operate", "Project"]


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("install.md", "[values](../charts/headroom/README.md#x)", "[values](repository/charts/headroom/README.md#x)"),
        ("install.md", "[upgrade](upgrade.md#uninstall)", "[upgrade](upgrade.md#uninstall)"),
        ("adr/0001-libraries.md", "[plan](../../tests/rows.py)", "[plan](../repository/tests/rows.py)"),
        ("contributing.md", "[records](adr)", "[records](adr/README.md)"),
        ("repository/README.md", "[why](docs/why.md)", "[why](../why.md)"),
        ("repository/charts/headroom/README.md", "[ui](../../docs/ui.md)", "[ui](../../../ui.md)"),
        ("why.md", "[site](https://kubernetes.io/docs)", "[site](https://kubernetes.io/docs)"),
        ("why.md", "`[code](../x.md)`", "`[code](../x.md)`"),
        ("why.md", "```sh elsewhere\n  [x](../x.md)\n```", "```sh\n  [x](../x.md)\n```"),
        ("why.md", "- item\n  1. part\n     text", "- item\n    1. part\n    text"),
    ],
)
def test_pages_are_rewritten(source: str, text: str, expected: str) -> None:
    """Links that leave docs/ lead to copies; marks and lists have the form of MkDocs; code stays."""
    assert docs_hooks.rewritten(text, source) == expected


def test_copies_exist() -> None:
    """Each file that a page links to outside of docs/ is copied, and so are the links of copied pages."""
    copies = docs_hooks.copied()
    assert {"README.md", "CHANGELOG.md", "charts/headroom/README.md", "charts/headroom/values.yaml"} <= set(copies)
    assert [path for path in copies if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("title", ["Questions", "What `/ui` shows", "Size, and more", "Q & A", "Part_1 (new)"])
def test_anchors_are_those_of_links(title: str) -> None:
    assert {docs_hooks.slug(title, "-")} == anchors(f"# {title}\n")


def test_site_builds_strictly(tmp_path: Path) -> None:
    """No link or anchor of the site is broken, and no page is forgotten."""
    if find_spec("material") is None:
        pytest.skip("MkDocs is not installed: make docs-site installs it")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site/repository/charts/headroom/values.yaml").is_file()
    page = (tmp_path / "site/quick-start.html").read_text(encoding="utf-8")
    assert "sh elsewhere" not in page
    assert re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"?https?:[^>]*>", page) == []  # of another host
