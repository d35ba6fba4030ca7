"""Every page is in the form that tests/pages.py describes, and its links lead somewhere."""

import pytest

from tests.docs.pages import PAGES, anchors, broken, text_of
from tests.pages import faults


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_marked(page: str) -> None:
    """Each block states whether it is run, and no command stands outside of one."""
    assert faults(text_of(page)) == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """Each link to a file, or to a heading of one, has a target."""
    assert broken(page, text_of(page)) == []


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("Do this:\n\n    kubectl get nodes\n", "line 3: an indented block"),
        ("- Do this:\n\n      kubectl get nodes\n", "line 3: an indented block"),
        ("```bash\nls\n```\n", "line 1: a block marked bash"),
        ("```\nls\n```\n", "line 1: a block marked with nothing"),
        ("```sh sometimes\nls\n```\n", "line 1: a block marked sh sometimes"),
        ("# Title\n\n```sh elsewhere\nls\n```\n", "line 3: the line above"),
        ("```sh elsewhere\nls\n```\n", "line 1: the line above"),
        ("- item\n  ```sh\n  ls\n  ```\n", "line 2: a fence that does not begin its line"),
        ("```sh\nls\n", "line 1: a block that is not closed"),
    ],
)
def test_faults_are_found(text: str, reported: str) -> None:
    """Whatever could hide a command from the tests is a fault, with its line."""
    assert [fault[: len(reported)] for fault in faults(text)][:1] == [reported]


@pytest.mark.parametrize(
    "text",
    [
        "It needs a browser:\n\n```sh elsewhere\nopen page\n```\n",
        "A paragraph\n    that goes on.\n",
        "- An item\n\n  with a paragraph\n\n  1. and a list\n\n     with another\n",
        "```text\n    anything\n```\n",
        "````text\n```sh\n````\n",
    ],
)
def test_good_form_passes(text: str) -> None:
    assert faults(text) == []


def test_headings_are_named() -> None:
    """Headings are linked to as GitHub names them: in lower case, without signs, numbered where they repeat."""
    text = "# The `agent`, in a cluster\n\n## What is a gap?\n\n## What is a gap?\n\n```text\n# no heading\n```\n"
    assert anchors(text) == {"the-agent-in-a-cluster", "what-is-a-gap", "what-is-a-gap-1"}


def test_broken_links_are_found() -> None:
    text = (
        "# A\n[x](#a) [x](https://example.org/x) `[x](y)`\n[x](nowhere.md) [x](#b)\n[x](../README.md#no-such-heading)\n"
    )
    assert broken("docs/agent.md", text) == [
        "line 3: nowhere.md: there is no such file",
        "line 3: #b: there is no such heading",
        "line 4: ../README.md#no-such-heading: there is no such heading",
    ]
