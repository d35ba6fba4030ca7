"""Measurements beside their budgets and references. Nothing here passes or fails: the reader judges."""

BENCHMARKS: dict[str, str] = {
    "process": "bench.process:measure",
    "tick": "bench.tick:measure",
    "training": "bench.training_round:measure",
    "store": "bench.store:measure",
    "compression": "bench.compression:measure",
    "week": "bench.week:measure",
    "manager-memory": "bench.manager_memory:measure",
    "scheduler-compute": "bench.scheduler_compute:measure",
    "extender": "bench.extender:measure",
    "quota": "bench.quota:measure",
}
"""Name -> function of `quick` that yields `bench.measurement.Measurement`s; quick ones only show that they run."""

GROUPS: dict[str, tuple[str, ...]] = {"agent": ("process", "tick", "training", "store", "compression", "week")}
"""Benchmarks that are run together, by the name of the group."""
