"""Dev clusters for tests: built before the first test, started once for all that ask, logs kept when a test fails."""

import gc
import logging
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.expression import Expression
from hypothesis import HealthCheck, settings

from tests import hanging, rounds
from tools.devcluster import Cluster, ClusterSpec, DevClusterError, images, node, packages
from tools.devcluster.binaries import Binaries
from tools.devcluster.commands import run
from tools.devcluster.families import CONTROL_PLANE, REAL_NODE

KWOK_NODES = 2

# The same inputs on every run, and no time limits: a busy machine fails no test. `make soak` looks for new inputs.
settings.register_profile(
    "steady",
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "soak", max_examples=rounds.of_a_round(1000), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("soak" if rounds.SOAK else "steady")


@pytest.fixture(autouse=True)
def unclosed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that leaves a resource open, and not a later one.

    What the test has made is young: to collect that takes a millisecond. Tests on clusters run among themselves.
    """
    yield
    if not any(request.node.get_closest_marker(entry) for entry in ("cluster", "node")):
        gc.collect(1)


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    """Undo the log settings of a test: `caplog` depends on the level."""
    level = logging.root.level
    yield
    logging.root.setLevel(level)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only marked tests are selected, files without such a mark are not imported: that takes half a minute."""
    if not collection_path.name.startswith("test_") or not (selected := config.option.markexpr):
        return None
    if Expression.compile(selected).evaluate(_no_mark):
        return None
    text = collection_path.read_text(encoding="utf-8")
    return None if any(f"mark.{name}" in text for name in re.findall(r"\w+", selected)) else True


def _no_mark(_name: str, /, **_more: str | int | bool | None) -> bool:
    return False


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """No input of a property may hang; in `make soak` a property is tried in rounds."""
    hanging.limit_inputs(pyfuncitem.obj)
    rounds.repeat(pyfuncitem)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:  # noqa: ANN401 - xdist is not annotated
    """With ``--dist loadscope``, which `make test` uses for the tests that share clusters: rows."""
    if config.getoption("dist") != "loadscope":
        return None
    from tests.rows import Rows  # noqa: PLC0415 - only where xdist is at work

    return Rows(config, log)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what the collected tests need, with progress and outside of any test's time limit."""
    if session.config.option.collectonly:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    say = reporter.write_line if reporter else print
    fetched = (
        ("prometheus_programs", "Prometheus", packages.prometheus_refusal, packages.prometheus),
        ("browser_program", "a browser", packages.browser_refusal, packages.browser),
    )
    for fixture, what, refusal, fetch in fetched:
        if any(fixture in getattr(item, "fixturenames", ()) for item in session.items):
            _fetch(what, refusal, fetch, say)
    if any(item.get_closest_marker("helm") for item in session.items):
        Binaries.find_or_build(["helm"], say)
    wants_node = any(item.get_closest_marker("node") for item in session.items) and not packages.real_node_refusal()
    if not wants_node and not any(item.get_closest_marker("cluster") for item in session.items):
        return
    try:
        binaries = Binaries.find_or_build(REAL_NODE if wants_node else CONTROL_PLANE, say)
        if wants_node:
            node.require_root()
            images.build_all(binaries, say)
    except DevClusterError as error:
        pytest.exit(f"the dev cluster cannot be built: {error}", returncode=1)


def _fetch(
    what: str,
    refusal: Callable[[], str | None],
    fetch: Callable[[Callable[[str], None]], object],
    say: Any,  # noqa: ANN401
) -> None:
    """Fetch a program before the first test, where it can be had."""
    try:
        if refusal() is None:
            fetch(say)
    except DevClusterError as error:
        pytest.exit(f"{what} cannot be fetched: {error}", returncode=1)


def _run(spec: ClusterSpec, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(spec) as cluster:
        yield cluster
        if request.session.testsfailed:
            cluster.keep_logs()


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A control plane with two kwok nodes, shared by all tests: each works in namespaces and with names of its own."""
    yield from _run(ClusterSpec(kwok_nodes=KWOK_NODES), request)


@pytest.fixture(scope="session")
def helm() -> Callable[..., str]:
    """The helm program, without a cluster: its output for some arguments; a CommandError where it fails."""
    program = Binaries.find_or_build(["helm"]).path("helm")

    def run_helm(*arguments: str | Path) -> str:
        return run([program, *arguments], env=dict(os.environ), timeout_seconds=60)

    return run_helm


@pytest.fixture(scope="session")
def real_node_requirements() -> None:
    """Skips, with the reason, where no real node can be: not Linux, not root. What could be installed must be there."""
    refusal = packages.real_node_refusal()
    if refusal:
        pytest.skip(refusal)


@pytest.fixture(scope="session")
def real_node_cluster(
    request: pytest.FixtureRequest,
    real_node_requirements: None,  # noqa: ARG001 - it skips
) -> Iterator[Cluster]:
    """A cluster with a real node and our own images, shared by all tests."""
    yield from _run(ClusterSpec(real_node=True), request)


@pytest.fixture(scope="session")
def prometheus_programs() -> packages.Prometheus:
    """A real Prometheus; skips, with the reason, where its package cannot be had. Fetched before the first test."""
    refusal = packages.prometheus_refusal()
    if refusal:
        pytest.skip(refusal)
    return packages.prometheus()


@pytest.fixture(scope="session")
def browser_program() -> Path:
    """A real browser; skips, with the reason, where none can be had. Installed before the first test."""
    refusal = packages.browser_refusal()
    if refusal:
        pytest.skip(refusal)
    return packages.browser()
