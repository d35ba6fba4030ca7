"""Objects that anybody writes large, again and again, leave no service larger."""

import pytest

from tools.soak.large_objects import GROWTH_MIB, SERVICES, measured

OBJECTS, SIZE = 1000, 800


@pytest.mark.long
@pytest.mark.parametrize("service", sorted(SERVICES))
def test_large_objects_are_forgotten(service: str) -> None:
    """1,000 versions of a Node, a NodeMetric and a Pod, each large and unlike the last, cost no more than the last."""
    growth, fed = measured(service, OBJECTS, SIZE, 250.0)
    assert fed == OBJECTS
    assert growth <= GROWTH_MIB[service]
