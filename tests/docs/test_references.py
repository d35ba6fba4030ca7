"""References of pages exist: commands with their flags, targets, modules, tests, files, values, metrics."""

import contextlib
import io
import re
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Final

import pytest
import yaml

from agent import __main__ as agent_main
from agent.database import _parser as database_parser
from agent.settings import AgentSettings
from headroom.runtime.options import Setting, flags_of, stages
from kubectl_headroom.arguments import parser
from tests.docs.commands import commands, quoted, spans
from tests.docs.pages import PAGES, ROOT, text_of

FOLDERS: Final = (
    "agent",
    "charts",
    "crds",
    "docs",
    "headroom",
    "manager",
    "requirements",
    "scheduler_plugins",
    "tests",
    "tools",
)
"""Folders of files that pages name."""
_TEST: Final = re.compile(r"\btests/[\w/]+\.py(?:::(\w+))?")
_METRIC: Final = re.compile(r"\bheadroom_(?:agent|manager|scheduler)_\w+")


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_understood(page: str) -> None:
    """Every command of ours that a page shows is one that its program, the Makefile or Python knows, with its flags."""
    text = text_of(page)
    wrong = [(line, fault(words)) for line, words in commands(text)]
    wrong += [(line, fault(words, whole=False)) for line, words in quoted(text)]
    assert [(line, problem) for line, problem in wrong if problem] == []


@pytest.mark.parametrize("page", PAGES)
def test_names_exist(page: str) -> None:
    """Every test, file and value of the chart that a page names is there."""
    text = text_of(page)
    wrong = [f"{test[0]} is no test" for test in _TEST.finditer(text) if not _is_test(test[0])]
    wrong += [f"line {line}: {code} is not there" for line, code in spans(text) if _is_missing(code)]
    assert wrong == []


@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/metrics.md"])
def test_metrics_are_documented(page: str) -> None:
    """Every metric on a page is in docs/metrics.md, which other tests compare with the exported ones."""
    documented = set(_METRIC.findall(text_of("docs/metrics.md")))
    named = {re.sub(r"_(bucket|sum|count)$", "", name) for name in _METRIC.findall(text_of(page))}
    assert {
        name for name in named if name not in documented and not any(entry.startswith(name) for entry in documented)
    } == set()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("kubectl headroom explain node NAME --configuration FILE", "kubectl headroom"),
        ("kubectl headroom describe node NAME", "kubectl headroom"),
        ("make tests-all", "make tests-all"),
        ("python -m tools.bench.nothing", "bench.nothing"),
        ("headroom-agent --stand-alone", "--stand-alone"),
        ("headroom-agent database stats", "database"),
        ("headroom-agent db stats --since 5m", "db stats"),
        ("helm install headroom charts/headroom --set scheduler.ignorant=true", "scheduler.ignorant"),
    ],
)
def test_wrong_commands_are_found(line: str, problem: str) -> None:
    page = f"It needs a cluster:\n\n```sh elsewhere\nexport A=1 && A=2 {line} | head   # so\n```\n"
    (result,) = [fault(words) for _, words in commands(page) if fault(words)]
    assert problem in result


def test_wrong_names_are_found() -> None:
    wrong = ["agent/collectors/nothing.py", "scheduler.ignorant: true", "tests/agent/test_pods.py::test_nothing"]
    assert all(_is_missing(code) for code in wrong[:2])
    assert not _is_test(wrong[2])
    right = ["agent/collectors/NAME.py", "scheduler.ignorable: true", "agent.db", "scheduler.md", "agent/collectors"]
    assert not any(_is_missing(code) for code in right)


def fault(words: list[str], *, whole: bool = True) -> str:
    """The error in a command; empty without one, or for a foreign command."""
    program, *rest = words
    if program == "kubectl" and rest[:1] == ["headroom"]:
        problem = _refused(_plugin(), rest[1:], " ".join(words))
        return (
            problem if whole or not re.search(r"arguments .* (is|are) required|arguments are required", problem) else ""
        )
    if program == "make":
        return "" if not rest or "=" in rest[0] or rest[0] in _targets() else f"make {rest[0]}: no such target"
    if program.startswith("python") and rest[:1] == ["-m"]:
        return "" if rest[1:] and _is_module(rest[1]) else f"python -m {' '.join(rest[1:2])}: no such module"
    if program == "headroom-agent":
        return _of_agent(rest)
    if program == "helm":
        names = [pair.partition("=")[0] for value in _after("--set", rest) for pair in value.split(",")]
        return next((f"--set {name}: no such value" for name in names if not _is_value(name)), "")
    return ""


def _refused(known: Any, words: list[str], shown: str) -> str:  # noqa: ANN401 - parsers of two kinds
    if {"-h", "--help"} & set(words) or not words:
        return ""
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
            known.parse_args([word.strip("[]") for word in words if not word.startswith("${@")])
    except (Exception, SystemExit) as error:  # noqa: BLE001 - parsers of ours raise what their programs print
        return f"{shown}: {output.getvalue().strip() or error}"
    return ""


def _of_agent(words: list[str]) -> str:
    if words[:1] == ["db"]:
        return _refused(database_parser(), words[1:], f"headroom-agent {' '.join(words)}")
    if words and not words[0].startswith("-"):
        return "" if words[0] in agent_main.COMMANDS else f"headroom-agent {words[0]}: no such command"
    flags = (
        {f"--{setting.flag}" for setting in _settings()}
        | {f"-{setting.letter}" for setting in _settings()}
        | {"--help"}
    )
    wrong = [word for word in words if word.startswith("-") and word.partition("=")[0] not in flags]
    return f"headroom-agent {wrong[0]}: no such flag" if wrong else ""


@cache
def _plugin() -> Any:  # noqa: ANN401 - a parser, made once
    return parser()


@cache
def _settings() -> tuple[Setting, ...]:
    return tuple(entry for stage in stages(AgentSettings) for entry in flags_of(stage).values())


@cache
def _targets() -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _after(flag: str, words: list[str]) -> list[str]:
    following = [word for before, word in pairwise(words) if before == flag]
    return following + [word.removeprefix(f"{flag}=") for word in words if word.startswith(f"{flag}=")]


@cache
def _values() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(text_of("charts/headroom/values.yaml"))
    return loaded


def _is_value(name: str) -> bool:
    """Return whether the chart has this value, or an ancestor that accepts any content."""
    place: Any = _values()
    for part in re.sub(r"\[\d+\]", "", name.replace("\\.", "")).split("."):
        if not isinstance(place, dict) or not place:
            return True
        if part not in place:
            return False
        place = place[part]
    return True


@cache
def _is_test(named: str) -> bool:
    path, _, test = named.partition("::")
    if not (ROOT / path).is_file():
        return False
    return not test or re.search(rf"^(async )?def {test}\(", text_of(path), re.MULTILINE) is not None


def _is_missing(code: str) -> bool:
    head = code.partition(":")[0].partition(" ")[0].partition("=")[0]
    if re.fullmatch(r"[a-z_]+(/[\w.-]+)+/?", head) and head.partition("/")[0] in FOLDERS:
        return not re.search(r"[A-Z]{3}", head) and not (ROOT / head).exists()
    if re.fullmatch(r"\w+(\.\w+)+", head) and head.partition(".")[0] in _values():
        return not head.endswith((".md", ".yaml", ".py", ".db")) and not _is_value(head)
    return False
