"""The real agent in a guest with a pure cgroup v2 kernel; run only with its marker: `make test-cgroup-v2`."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cgroup_v2.measured import Measured, measured
from tools.devcluster.commands import DevClusterError, MissingRequirementError
from tools.devcluster.guest import GuestKernel, find_or_make

MARKER = "cgroup_v2"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests that need a guest, unless their marker is selected: they take minutes."""
    if MARKER in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker(MARKER)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def guest_kernel(request: pytest.FixtureRequest) -> GuestKernel:
    """The guest's kernel; skips, naming it, where something is missing that cannot be had."""
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    try:
        return find_or_make(reporter.write_line if reporter else print)
    except MissingRequirementError as error:
        pytest.skip(f"no guest with cgroup v2 on this machine: {error}")
    except DevClusterError as error:
        pytest.fail(f"the guest cannot be made: {error}", pytrace=False)


@pytest.fixture(scope="session")
def in_guest(guest_kernel: GuestKernel) -> Iterator[dict[str, Measured]]:
    """The agent's measurements in the guest, and the true values, by cgroup driver."""
    with measured(guest_kernel, Path(sys.executable)) as result:
        yield result
