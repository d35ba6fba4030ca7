"""Measurements beside their budgets and references. Nothing here passes or fails: the reader judges."""

BENCHMARKS: dict[str, str] = {
    "agent": "bench.agent:measure",
    "training": "bench.training_round:measure",
    "extender": "bench.extender:measure",
    "store": "bench.store:measure",
}
"""Name -> function without arguments that yields `bench.measurement.Measurement`s."""
