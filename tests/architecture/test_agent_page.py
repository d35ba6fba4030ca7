"""docs/agent.md lists the agent's features: every setting, command and served path."""

import re

from agent.__main__ import COMMANDS
from agent.settings import AgentSettings
from headroom.runtime import options
from tests.architecture.sources import ROOT

PAGE = (ROOT / "docs/agent.md").read_text(encoding="utf-8")


def _settings() -> str:
    """The page's tables of settings: one per stage, from the fields and their docstrings."""
    parts = []
    for stage in options.stages(AgentSettings):
        texts = options.docstrings(stage)
        title = (stage.__doc__ or "").splitlines()[0].rstrip(".")
        parts.append(f"**{title}**\n\n| flag | default | |\n|---|---|---|")
        parts[-1] += "".join(
            f"\n| `{_flag(one)}` | {_shown(one)} | {_cell(texts[name])} |"
            for name, one in options.flags_of(stage).items()
        )
    return "\n\n".join(parts)


def _flag(one: options.Setting) -> str:
    short = f"-{one.letter}, " if one.letter else ""
    return f"{short}--{one.flag}" if one.kind.switch else f"{short}--{one.flag} {one.kind.metavar}"


def _shown(one: options.Setting) -> str:
    if one.kind.switch or not one.shown:
        return ""
    return one.shown if " " in one.shown else f"`{one.shown}`"


def _cell(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def test_settings_are_documented() -> None:
    """The page has every flag with its default and the docstring under its field, and nothing else."""
    section = PAGE.split("\n## Settings\n", 1)[1].split("\n## ", 1)[0]
    tables = section[section.index("**") :].strip()
    assert tables == _settings(), f"put this into docs/agent.md:\n\n{_settings()}"


def test_commands_are_documented() -> None:
    """The page names every command."""
    assert all(f"headroom-agent {name}" in PAGE for name in COMMANDS)


def test_links_lead_somewhere() -> None:
    """Every link to another page, or to a heading of this one, has a target."""
    for target in re.findall(r"\]\(([^)#]+)?(?:#[^)]*)?\)", PAGE):
        assert not target or (ROOT / "docs" / target).exists(), target
    titles = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    headings = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]*)\)", PAGE)) <= headings
