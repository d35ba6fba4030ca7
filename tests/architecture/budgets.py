"""Lines of each folder and matches of each class of wording, counted from their files.

`python -m tests.architecture.budgets` lowers each budget in budgets.json to the present count. A budget is raised by
hand only, with a reason in the commit message.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.architecture.sources import ROOT

FILE: Final = Path(__file__).with_suffix(".json")
CODE: Final = (".py", ".pyi", ".pyx", ".js", ".html", ".css")
TEXT: Final = (".py", ".pyx", ".md", ".yaml", ".tpl", ".txt")
PARTS: Final = {
    "product": ("agent", "manager", "scheduler_plugins", "crds", "headroom", "kubectl_headroom", "charts"),
    "docs": ("docs", "README.md", "CHANGELOG.md"),
    "tests": ("tests",),
    "tools": ("tools",),
}
UNREAD: Final = ("tests/architecture/budgets.py", "docs/performance.md")  # the patterns below, and a generated page
SPLIT: Final = ("agent", "manager", "scheduler_plugins", "headroom", "kubectl_headroom", "tests")
"""Folders whose subfolders have budgets of their own."""
WORDING: Final = {
    "persons as actors": r"\b(nobody|somebody|anybody|everybody|whoever|whom|whose)\b",
    "programs that talk": r"\b(told|tells?|telling|untold|heard|unheard)\b",
    "asked, answers": r"\b(asked|asks|asking|answers? with|answered for)\b",
    "what ... as a noun": r"\bwhat (is|was|are|has|it|they|of|the|there|we|others|came|makes?|stands"
    r"|follows|holds|comes)\b",
    "docstring without a verb": r'"""(What|Who|Whose|Whether|Why|How|Those|One|Of|Is told) ',
    "go by, come of": r"\b(go(es|ne|ing)? by|came? of|comes? (of|to)|came to|made of)\b",
    "stands": r"\bstands?\b|\bstood\b",
    "look at/for/after": r"\b(look(s|ed|ing)?) (at|after|into|back)\b",
    "anew, any more": r"\b(anew|afresh|any more|no more|not any)\b",
    "trouble, complain": r"\b(troubles?|complain\w*)\b",
    "room, leave, claim": r"\broom\b|\b(ha(s|ve) to leave|who leaves|leaves? for|claims? of|doubt\w*"
    r"|wak(e|es|ing|er|ed)\b)",
    "sell, buy": r"\b(sells?|sold|selling|bought|buys?|buying|resale|resold|offers?|offered)\b",
    "odd, strange": r"\b(odd|strange|stranger)\w*\b",
    "literary": r"\b(bears?|beside it|in its own way|as it is|so it is|lets? go|comes? in|on its way|at hand|wholly"
    r"|surely|nor|hence|thereof|lest|befall|in vain|likewise)\b",
    "variable without a noun": r"\bfor (each|one|it|other|every) in\b"
    r"|^\s+(found|told|given|kept|asked|seen|own|others|everything|known)(: [^=]+)? = ",
}


def files() -> Iterator[Path]:
    """Find the files of all parts, by their paths from the root."""
    for head in (head for heads in PARTS.values() for head in heads):
        result = [ROOT / head] if head.endswith(".md") else (ROOT / head).rglob("*")
        yield from (path.relative_to(ROOT) for path in result if path.is_file())


def lines() -> dict[str, int]:
    """Count the lines of code of each folder; a subfolder with a budget of its own is left out of its parent."""
    counts = Counter[str]()
    for path in files():
        folder, *rest = path.parts
        if path.suffix in CODE and folder in {*SPLIT, "crds", "tools"}:
            is_split = folder in SPLIT and len(rest) > 1
            counts[f"{folder}/{rest[0]}" if is_split else folder] += len((ROOT / path).read_text().splitlines())
    return dict(counts)


def wording() -> dict[str, int]:
    """Count the matches of each class of wording in each part of the repository."""
    patterns = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in WORDING.items()}
    counts = Counter[str]()
    for path in files():
        part = next(part for part, heads in PARTS.items() if path.parts[0] in heads)
        if path.suffix not in TEXT or str(path) in UNREAD:
            continue
        for line in (ROOT / path).read_text().splitlines():
            counts.update({f"{part}: {name}": len(pattern.findall(line)) for name, pattern in patterns.items()})
    return dict(counts)


def budgets() -> dict[str, dict[str, int]]:
    """Return the budgets: of lines by folder, and of matches by part and class of wording."""
    loaded: dict[str, dict[str, int]] = json.loads(FILE.read_text())
    return loaded


def exceeded(counts: Mapping[str, int], allowed: Mapping[str, int], unit: str) -> list[str]:
    """Name each count above its budget."""
    return [
        f"{name}: {count} {unit}, {count - allowed.get(name, 0)} above the budget of {allowed.get(name, 0)}"
        for name, count in sorted(counts.items())
        if count > allowed.get(name, 0)
    ]


def main() -> None:
    """Lower each budget to the present count, and drop budgets of folders that are gone."""
    allowed = budgets()
    for kind, counts in (("lines", lines()), ("wording", wording())):
        allowed[kind] = {name: min(most, counts[name]) for name, most in allowed[kind].items() if name in counts}
    FILE.write_text(json.dumps(allowed, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
