"""Declare the compiled module where its source is: what lacks the source needs no compiler, as the agent's image.

The rest is in pyproject.toml. Its table of extensions is experimental, and cannot depend on a file.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

SOURCE = "scheduler_plugins/steps/compiled.pyx"

compiled = Extension(
    "scheduler_plugins.steps.compiled",
    [SOURCE],
    # Sums of scores are the same on each architecture, and integers wrap, as in numpy.
    extra_compile_args=["-O2", "-g0", "-ffp-contract=off", "-fwrapv"],
    extra_link_args=["-s"],
    # Without it the module in Python is used. The manager's image requires it: a failed build prints the reason.
    optional=os.environ.get("HEADROOM_COMPILED") != "required",
)
compiled.cython_c_in_temp = True  # the tree gets no .c
setup(ext_modules=[compiled] if Path(SOURCE).exists() else [])
