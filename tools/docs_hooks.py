"""Hooks of MkDocs: the pages in docs/, written for GitHub, become a site without changes to them.

Links that leave docs/ lead to copies below repository/ of the site. Anchors are those of GitHub.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = "docs"
COPIES: Final = "repository"
_LINK: Final = re.compile(r"(?<=\]\()([^()\s:#]+)(?=[)#])")
_CODE: Final = re.compile(r"(`[^`]*`)")
_FENCE: Final = re.compile(r"^(`{3,})(\w*).*$")
_INDENT: Final = re.compile(r"^ +(?=\S)")


def on_config(config: Any) -> Any:  # noqa: ANN401 - a configuration of MkDocs
    """Make anchors as GitHub does, and list the decisions."""
    config.mdx_configs["toc"]["slugify"] = slug
    (project,) = (entry["Project"] for entry in config.nav if "Project" in entry)
    (decisions,) = (entry["Decisions"] for entry in project if "Decisions" in entry)
    decisions.extend(f"adr/{path.name}" for path in sorted((ROOT / DOCS / "adr").glob("[0-9]*.md")))
    return config


def on_files(files: Any, config: Any) -> Any:  # noqa: ANN401 - files of MkDocs
    """Copy the files that pages link to outside of docs/."""
    file = resolve_name("mkdocs.structure.files:File")
    for path in copied():
        files.append(file.generated(config, source_of(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:  # noqa: ANN401 - a page of MkDocs
    """Return a page in the dialect of MkDocs."""
    return rewritten(markdown, page.file.src_uri)


def slug(title: str, separator: str) -> str:
    """Return the anchor of a heading on GitHub."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", separator)


def source_of(path: str) -> str:
    """Return the place in the site's sources of a file of the repository."""
    return path.removeprefix(f"{DOCS}/") if path.startswith(f"{DOCS}/") else f"{COPIES}/{path}"


def path_of(source: str) -> str:
    """Return the path in the repository of a source of the site."""
    return source.removeprefix(f"{COPIES}/") if source.startswith(f"{COPIES}/") else f"{DOCS}/{source}"


def rewritten(text: str, source: str) -> str:
    """Return a page of the site: links, nested lists and marks of blocks as Python-Markdown reads them."""
    return "\n".join(_lines(text, source))


def _lines(text: str, source: str) -> Iterator[str]:
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
            yield f"{mark[1]}{mark[2]}"
        elif fence:
            fence = "" if line.strip() == fence else fence
            yield line
        else:
            prose = _INDENT.sub(lambda indent: " " * 4 * ((len(indent[0]) + 2) // 4 or 1), line)
            parts = _CODE.split(prose)
            yield "".join(part if part.startswith("`") else _linked(part, source) for part in parts)


def _linked(prose: str, source: str) -> str:
    return _LINK.sub(lambda link: _target(link[1], source), prose)


def _target(link: str, source: str) -> str:
    return posixpath.relpath(source_of(_linked_path(path_of(source), link)), posixpath.dirname(source) or ".")


def _linked_path(path: str, link: str) -> str:
    """Return the path in the repository that a page links to; of a folder its README."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    return f"{target}/README.md" if (ROOT / target).is_dir() else target


def outside(path: str, text: str) -> Iterator[str]:
    """Yield the files outside of docs/ that a page of the repository links to."""
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark or fence:
            fence = "" if fence and line.strip() == fence else fence or (mark[1] if mark else "")
            continue
        for link in _LINK.findall(_CODE.sub("`", line)):
            target = _linked_path(path, link)
            if not target.startswith(f"{DOCS}/"):
                yield target


def copied() -> list[str]:
    """Return the files outside of docs/ that the site contains: those that its pages link to, and their links."""
    waiting = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / DOCS).rglob("*.md"))]
    result: list[str] = []
    for path in waiting:
        if path.endswith(".md"):
            new = outside(path, (ROOT / path).read_text(encoding="utf-8"))
            waiting += [target for target in dict.fromkeys(new) if target not in waiting]
        if not path.startswith(f"{DOCS}/"):
            result.append(path)
    return sorted(result)
