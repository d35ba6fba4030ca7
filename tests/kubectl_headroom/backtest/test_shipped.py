"""The backtest's code is shipped; the test traces are not."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from agent.predictors import PREDICTORS
from kubectl_headroom.backtest.sources import SOURCES
from tests.architecture.sources import ROOT, imported, modules
from tools.devcluster.images import RECIPES

CODE = ("agent", "headroom", "crds", "kubectl_headroom")


def needed() -> set[str]:
    """Every module of ours that the backtest imports, or imports by name, through others, too."""
    files = {name: path for package in CODE for name, path in modules(package)}
    todo = [name for name in files if name.startswith("kubectl_headroom.backtest")]
    todo += [target.partition(":")[0] for target in (*PREDICTORS.values(), *SOURCES.values())]
    observed: set[str] = set()
    while todo:
        module = todo.pop()
        if module not in observed:
            observed.add(module)
            todo += list(_imports(module, files))
    return observed


def _imports(module: str, known: dict[str, Path]) -> Iterator[str]:
    for name, _ in imported(known[module], module=module):
        parts = name.split(".")
        yield from (up for up in (".".join(parts[:end]) for end in range(1, len(parts) + 1)) if up in known)


def test_image_has_the_modules_of_the_backtest() -> None:
    """Every module that a backtest can import is copied into the manager's image, and of the agent little else."""
    (recipe,) = [recipe for recipe in RECIPES if recipe.name == "headroom-manager"]
    copied = {str(path.relative_to(ROOT)) for path in recipe.files(ROOT)}
    files = {_file(module) for module in needed()}
    assert len(files) > 60
    assert files - copied == set()
    forbidden = r"agent/(collectors|reporter|standalone|tsdb|__main__|pipeline)"
    assert not {name for name in copied if re.match(forbidden, name)}


def _file(module: str) -> str:
    path = module.replace(".", "/")
    return f"{path}/__init__.py" if (ROOT / path).is_dir() else f"{path}.py"


def test_no_library_of_services_is_needed() -> None:
    """A backtest needs no library beyond those that `kubectl headroom` needs anyway; matplotlib is an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    base = {re.split(r"[^\w-]", line)[0].lower().replace("-", "_") for line in project["dependencies"]}
    files = {name: path for package in CODE for name, path in modules(package)}
    tops = {
        name.partition(".")[0]
        for module in needed()
        for name, _ in imported(files[module], module=module)
        if not name.startswith(CODE)
    }
    foreign = {name for name in tops if name not in sys.stdlib_module_names}
    assert foreign - base - {"matplotlib", "yaml"} == set()  # yaml is the module of pyyaml
    assert any(line.startswith("matplotlib") for line in project["optional-dependencies"]["plot"])
