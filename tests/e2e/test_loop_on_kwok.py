"""The whole loop on kwok nodes whose load is replayed, without root: the demo's steps as assertions."""

import pytest

from demo.steps import STEPS, Step
from tests.e2e.conftest import Telling

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.run.__name__)
def test_demo_step_holds(step: Step, on_kwok: Telling) -> None:
    """Every step of the demo shows what it promises, with the services as processes."""
    on_kwok.up_to(step)
