"""The runner of docs/ detects wrong pages."""

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, anchors, broken, text_of
from tests.pages import Block, PageError, Reader, blocks, faults, matches

PAGE = """# A page

Not run:

```yaml
not: run
```

A browser is needed for this:

```sh elsewhere
exit 1
```

```text
what a browser shows
```

```sh
export WHO=world
greet() { echo "hello $1"; }
```

Text between.

```sh
greet "$WHO"
```

```text
hello …
```

```sh again
echo .x >> counted; wc -l < counted
```

It takes a while:

```text
3
```

It differs from time to time:

```sh prints
date
```

```text
yesterday
```
"""


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path, {"PATH": "/usr/local/bin:/usr/bin:/bin"})


def written(tmp_path: Path, text: str) -> Path:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


def test_blocks_are_found() -> None:
    """Only `sh` blocks are run, each with the output that follows it and the line where it begins."""
    result = list(blocks(PAGE))
    assert [(block.line, block.expected, block.again) for block in result] == [
        (19, "", False),
        (26, "hello …\n", False),
        (34, "3\n", True),
        (46, "", False),
    ]
    assert [block.compared for block in result] == [True, True, True, False]
    assert result[1] == Block(26, 'greet "$WHO"\n', "hello …\n")


def test_page_is_followed(reader: Reader, tmp_path: Path) -> None:
    """Variables and functions live on from block to block, and a block is repeated where the page marks it so."""
    assert reader.follow(written(tmp_path, PAGE)) == 4
    assert (tmp_path / "counted").read_text() == ".x\n" * 3


@pytest.mark.parametrize(
    ("block", "reported"),
    [
        ("```sh\necho hello\n```\n\n```text\ngoodbye\n```\n", "it prints\nhello"),
        ("```sh\necho hello\n```\n", "it prints\nhello"),  # it shows no output, so there must be none
        ("```sh\ntrue\n```\n\n```text\nhello\n```\n", "the page shows\nhello"),
        ("```sh\nfalse\n```\n", "exit code 1"),
        ("```sh\nfalse | true\n```\n", "exit code 1"),
        ("```sh\necho $NOBODY_SET_THIS\n```\n", "unbound variable"),
        ("```sh prints\ntrue\n```\n", "the page shows\nsomething"),
        ("```sh prints\necho hello; false\n```\n", "exit code 1"),
        ("```sh\necho lost >&2; false\n```\n\n```text\nlost\n```\n", "exit code 1"),
    ],
)
def test_wrong_page_fails(reader: Reader, tmp_path: Path, block: str, reported: str) -> None:
    """A page with a failing block or another output fails, with the line, both outputs and the exit code."""
    page = written(tmp_path, f"text\n\n{block}")
    with pytest.raises(PageError, match=r"page\.md, line 3") as caught:
        reader.follow(page)
    assert reported in str(caught.value)


def test_output_belongs_to_its_section() -> None:
    """A text in a later section, or after another block, is no output of the commands above it."""
    apart = "```sh\ntrue\n```\n\n## Next\n\n```text\na drawing\n```\n"
    between = "```sh\ntrue\n```\n\n```yaml\na: 1\n```\n\n```text\na drawing\n```\n"
    assert [block.expected for text in (apart, between) for block in blocks(text)] == ["", ""]


@pytest.mark.parametrize("text", ["```sh twice\ntrue\n```\n", "```sh\ntrue\n"])
def test_malformed_blocks_are_refused(text: str) -> None:
    """An info string that is not understood, and a block without an end, are errors, not passed over."""
    with pytest.raises(PageError, match="line 1"):
        list(blocks(text))


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("NAME   USED\na      2", "NAME      USED\na         2  \n", True),
        ("NAME   USED\na      2", "NAME      USED\na         3\n", False),
        ("a", "a\nb", False),
        ("a\n…", "a\nb\nc", True),
        ("…\nc", "a\nb\nc", True),
        ("a\n…\nc", "a\nc", True),
        ("a\n…\nc", "a\nd", False),
        ("age …s ok", "age 12s ok", True),
        ("age …s ok", "age 12m ok", False),
        ("used 4 (…)", "used 4 (of 6)", True),
        ("a.c", "abc", False),  # no regular expression
        ("", "", True),
        ("", "a", False),
        ("…", "", True),
    ],
)
def test_outputs_are_compared(expected: str, actual: str, same: bool) -> None:  # noqa: FBT001 - a parameter
    """Blanks do not count, `…` matches any text, and all else counts."""
    assert matches(expected, actual) is same


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_marked(page: str) -> None:
    """Each block states whether it runs, and no command is outside of one."""
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
