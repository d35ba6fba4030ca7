"""Steps of a request that belong to no plugin: compiled where the package was built with a C compiler, else in Python.

Both forms return the same. `HEADROOM_PURE_PYTHON=1` chooses the Python form.
"""

import os
from typing import Final

if os.environ.get("HEADROOM_PURE_PYTHON"):
    from scheduler_plugins.steps.in_python import NodeIndex, best_of_groups, change_rows
else:
    try:
        from scheduler_plugins.steps.compiled import NodeIndex, best_of_groups, change_rows
    except ImportError:
        from scheduler_plugins.steps.in_python import NodeIndex, best_of_groups, change_rows

COMPILED: Final = not NodeIndex.__module__.endswith("in_python")  # whether the compiled form is in use

__all__ = ["COMPILED", "NodeIndex", "best_of_groups", "change_rows"]
