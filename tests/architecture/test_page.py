"""docs/architecture.md names every package, and nothing that is not there."""

import re

from tests.architecture.sources import ROOT, SHIPPED, modules

PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def test_every_package_has_its_line() -> None:
    """The table of packages has a line for each package that is shipped; small packages of commands share one."""
    packages = {
        path.parent.relative_to(ROOT).as_posix()
        for package in SHIPPED
        for _, path in modules(package)
        if path.name == "__init__.py"
    }
    named = set(re.findall(r"^\| `([\w/]+)/` \|", PAGE, re.MULTILINE))
    inside = {name for name in packages if name.startswith(("kubectl_headroom/", "headroom/runtime/"))}
    assert packages - inside - {"headroom"} <= named
    assert {name for name in named if not (ROOT / name).is_dir()} == set()


def test_named_files_exist() -> None:
    """Each file that the page names exists; NAME is the name of a new one."""
    named = {name for name in re.findall(r"`((?:\w+/)+[\w.-]+\.\w+)`", PAGE) if "NAME" not in name}
    assert len(named) > 15
    assert {name for name in named if not (ROOT / name).is_file()} == set()


def test_named_registries_exist() -> None:
    """Each registry is in the file that the page says."""
    named = re.findall(r"one line in (?:`([A-Z]+)` of )?`([\w/.]+)`", PAGE)
    assert {name for name, _ in named} >= {"COLLECTORS", "PREDICTORS", "PLUGINS"}
    for name, file in named:
        assert name in (ROOT / file).read_text(encoding="utf-8"), file
