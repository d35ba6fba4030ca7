"""Which versions of the API server are supported."""

import pytest

from headroom.cli.doctor.checks.prerequisites import minor
from headroom.cli.doctor.finding import Severity
from tests.headroom.cli.doctor.installation import healthy
from tests.headroom.cli.doctor.world import one


@pytest.mark.parametrize(
    ("text", "number"),
    [("v1.33.5-gke.1", (1, 33)), ("v1.36.2", (1, 36)), ("1.30+", (1, 30)), ("kwok-0.8", None), ("", None)],
)
def test_minor(text: str, number: tuple[int, int] | None) -> None:
    """Vendors put things behind the number; kwok calls its kubelet something else."""
    assert minor(text) == number


async def test_old_api_server() -> None:
    """Kubernetes before 1.30 is an error; a version that says nothing is told."""
    world = healthy()
    world.version = {"gitVersion": "v1.29.14"}
    assert "needs 1.30 or newer" in (await one(world, "kubernetes", Severity.ERROR)).message
    world.version = {"gitVersion": "unknown"}
    assert "says nothing" in (await one(world, "kubernetes", Severity.INFO)).message
