"""Sources for the architecture tests: the project's modules, as text and as syntax trees."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SERVICES = ("agent", "manager", "scheduler_plugins")
SHIPPED = (*SERVICES, "crds", "headroom", "kubectl_headroom")
PACKAGES = (*SHIPPED, "tools")


def modules(package: str) -> Iterator[tuple[str, Path]]:
    """Yield dotted name and file of every module of a package, whose name may be dotted, too.

    Raises:
        FileNotFoundError: there is no such package: a test of its modules would check nothing.
    """
    folder = ROOT / package.replace(".", "/")
    if not folder.is_dir():
        raise FileNotFoundError(folder)
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(), filename=str(path))


def imported(path: Path, *, module: str) -> Iterator[tuple[str, int]]:
    """Yield every dotted name that a file imports, at any place, with its line."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                anchor = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*anchor, *([node.module] if node.module else [])])
            yield base, node.lineno
            for alias in node.names:
                yield f"{base}.{alias.name}", node.lineno
