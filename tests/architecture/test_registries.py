"""A part is one file and one registry line: both or neither."""

import pkgutil
from collections.abc import Mapping

import pytest

from tests.architecture.sources import ROOT

# registry -> (folder, files in it that are not parts)
REGISTRIES = {
    "agent.collectors:COLLECTORS": ("agent/collectors", {"base"}),
    "agent.predictors:PREDICTORS": ("agent/predictors", {"base"}),
    "manager.calculators:CALCULATORS": ("manager/calculators", {"base"}),
    "scheduler_plugins.providers.spec:PROVIDERS": (
        "scheduler_plugins/providers",
        {"provider", "runner", "spec", "web"},
    ),
    "scheduler_plugins.plugins:PLUGINS": (
        "scheduler_plugins/plugins",
        {"load_aware_arguments", "load_aware_explanation"},
    ),
}


def _registry(name: str) -> Mapping[str, str]:
    registry = pkgutil.resolve_name(name)
    assert isinstance(registry, Mapping)
    return registry


@pytest.mark.parametrize("name", REGISTRIES)
def test_registry_names_every_file(name: str) -> None:
    """Every file of a registry's folder is in the registry, and the other way round."""
    folder, remaining = REGISTRIES[name]
    files = {path.stem for path in (ROOT / folder).glob("*.py") if not path.stem.startswith("_")} - remaining
    named = {target.partition(":")[0].rpartition(".")[2] for target in _registry(name).values()}
    assert named == files


@pytest.mark.parametrize("name", REGISTRIES)
def test_registry_entries_resolve(name: str) -> None:
    """Every registry line names something that exists."""
    for target in _registry(name).values():
        assert callable(pkgutil.resolve_name(target)), target
