"""Modules and functions stay small enough to be read at one sitting."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.sources import PACKAGES, ROOT, modules, tree

MODULE_LINES = 400
FUNCTION_LINES = 60
UNDOCUMENTED_LINES = 2
VAGUE = {"util", "utils", "helper", "helpers", "common", "misc", "base_utils", "tools"}


@pytest.mark.parametrize("package", [*PACKAGES, "tests"])
def test_modules_are_small(package: str) -> None:
    """No module has more than 400 lines."""
    sizes = {path: len(path.read_text().splitlines()) for _, path in modules(package)}
    large = [f"{path.relative_to(ROOT)}: {size} lines" for path, size in sizes.items() if size > MODULE_LINES]
    assert not large, "\n".join(large)


@pytest.mark.parametrize("package", [*PACKAGES, "tests"])
def test_functions_are_small(package: str) -> None:
    """No function has more than 60 lines."""
    large = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {node.end_lineno - node.lineno + 1} lines"
        for _, path in modules(package)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES
    ]
    assert not large, "\n".join(large)


@pytest.mark.parametrize("package", PACKAGES)
def test_module_names_are_specific(package: str) -> None:
    """No module is named util, helper, common or misc."""
    vague = [str(path.relative_to(ROOT)) for _, path in modules(package) if path.stem in VAGUE]
    assert not vague, "\n".join(vague)


def _public_functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _public_functions(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node


@pytest.mark.parametrize("package", PACKAGES)
def test_longer_functions_have_docstrings(package: str) -> None:
    """A public function of more than two lines has a docstring, unless it is a property."""
    missing = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for _, path in modules(package)
        for node in _public_functions(tree(path).body)
        if ast.get_docstring(node) is None
        and (node.body[-1].end_lineno or 0) - node.body[0].lineno >= UNDOCUMENTED_LINES
        and not any("property" in ast.dump(decorator) for decorator in node.decorator_list)
    ]
    assert not missing, "\n".join(missing)
