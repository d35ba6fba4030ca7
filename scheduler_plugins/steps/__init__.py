"""Steps of a request that belong to no plugin: compiled where the package was built with a C compiler, else in Python.

Both forms return the same, but that only the compiled one evaluates formulas. `HEADROOM_PURE_PYTHON=1` chooses the
form in Python.
"""

import importlib
import os
from contextlib import suppress
from typing import Final

from scheduler_plugins.steps import in_python as _form

if os.environ.get("HEADROOM_PURE_PYTHON") != "1":
    with suppress(ModuleNotFoundError):  # a module that cannot be loaded stops the start
        _form = importlib.import_module("scheduler_plugins.steps.compiled")

COMPILED: Final = not _form.__name__.endswith("in_python")  # whether the compiled form is in use

Evaluator = _form.Evaluator
NodeIndex = _form.NodeIndex
any_exceeds = _form.any_exceeds
best_of_groups = _form.best_of_groups
change_rows = _form.change_rows
groups_of = _form.groups_of
weighted_mean = _form.weighted_mean
