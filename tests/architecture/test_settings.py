"""Every setting is documented and read."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, SERVICES, modules, tree

READ_BY_NOBODY = {
    "LoadAwareArguments.estimator": "accepted as Koordinator does; there is one estimator, and every name means it"
}


def _dataclass_fields(path: Path) -> Iterator[tuple[ast.ClassDef, str, bool]]:
    """Yield class, name and whether a comment or docstring exists, of every field of every dataclass."""
    lines = path.read_text().splitlines()
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.ClassDef) or "dataclass" not in ast.unparse(ast.List(node.decorator_list)):
            continue
        for statement, following in zip(node.body, [*node.body[1:], None], strict=True):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                beside = "  # " in lines[statement.lineno - 1]
                documented = beside or (isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant))
                yield node, statement.target.id, documented


def _settings(service: str) -> list[Path]:
    """The modules of a service's settings; a plugin's arguments are its own fields."""
    result = [path for name, path in modules(service) if name.endswith((".settings", ".profile.model"))]
    return [*result, *(path for name, path in modules(service) if name.startswith("scheduler_plugins.plugins."))]


def _attributes_read(service: str) -> set[str]:
    read = set()
    for _, path in modules(service):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                read.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                read.add(node.value)  # getattr(self, name) over a tuple of names
    return read


@pytest.mark.parametrize("service", SERVICES)
def test_every_setting_is_documented(service: str) -> None:
    """Each field has a comment, or a docstring below it."""
    bare = [
        f"{path.relative_to(ROOT)}: {node.name}.{name}"
        for path in _settings(service)
        for node, name, documented in _dataclass_fields(path)
        if not documented and not node.name.startswith("_") and not name.startswith("_")
    ]
    assert not bare, "\n".join(bare)


@pytest.mark.parametrize("service", SERVICES)
def test_every_setting_is_read(service: str) -> None:
    """Each field is used somewhere in its service."""
    read = _attributes_read(service)
    unread = [
        f"{path.relative_to(ROOT)}: {node.name}.{name}"
        for path in _settings(service)
        for node, name, _ in _dataclass_fields(path)
        if name not in read and f"{node.name}.{name}" not in READ_BY_NOBODY
    ]
    assert not unread, "\n".join(unread)


@pytest.mark.parametrize("service", SERVICES)
def test_service_has_settings(service: str) -> None:
    """The tests above check at least one field."""
    assert sum(1 for path in _settings(service) for _ in _dataclass_fields(path)) > 0
