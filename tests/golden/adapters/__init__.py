"""Adapters: the JSON of a vector -> our types -> our function -> JSON. They hold no arithmetic.

The adapter of an operation is the function of that name in the module of its family, or an entry of `OPERATIONS` there.
"""

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

Adapter = Callable[[dict[str, Any]], dict[str, Any]]  # turns the `input` of a vector into the result of our function


def adapter(family: str, operation: str) -> Adapter | None:
    """The adapter of an operation; None where there is none."""
    try:
        module = import_module(f"{__name__}.{'load_aware' if family.startswith('loadaware_') else family}")
    except ModuleNotFoundError:
        return None
    listed: dict[str, Adapter] = getattr(module, "OPERATIONS", {})
    name = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", operation)
    return listed.get(operation) or getattr(module, f"_{name}", None)
