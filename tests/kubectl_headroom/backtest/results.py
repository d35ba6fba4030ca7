"""Results with figures that can be computed by hand, for tests of reports."""

from collections.abc import Sequence

import numpy as np

from kubectl_headroom.backtest import policies
from kubectl_headroom.backtest.engine import ORACLE, Plan
from kubectl_headroom.backtest.report import Report
from kubectl_headroom.backtest.score import Result
from kubectl_headroom.backtest.trace import Resource, Trace

DAY = 86_400


def result(
    policy: str,
    violation: Sequence[float],
    savings: Sequence[float],
    limits: Sequence[float] = (),
    *,
    resource: Resource = "cpu",
    horizon: int = DAY,
    seeds: tuple[int, ...] = (0,),
) -> Result:
    """A result, from percent by machine; its severity is a tenth of its violation."""
    shares = np.array(violation) / 100
    return Result(
        policy=policy,
        resource=resource,
        horizon_seconds=horizon,
        machines=len(shares) // max(len(seeds), 1),
        seeds=seeds,
        violation=shares,
        severity=shares / 10,
        savings=np.array(savings) / 100,
        limits=np.array(limits or [1.0] * len(shares)),
    )


def trace(source: str = "two machines", resource: Resource = "cpu", notes: tuple[str, ...] = ()) -> Trace:
    times = 1376611200.0 + 300.0 * np.arange(4 * 288, dtype=np.float64)
    usage = np.ones((len(times), 2))
    return Trace(resource, times, 300.0, usage, np.array([2.0, 4.0]), ("a", "b"), source=source, notes=notes)


def report(results: Sequence[Result], plan: Plan | None = None, traces: tuple[Trace, ...] = ()) -> Report:
    names = [name for name in dict.fromkeys(result.policy for result in results) if name != ORACLE]
    plan = plan or Plan(machines=2, seeds=(0,), horizons_seconds=(DAY,))
    return Report(tuple(policies.parse(names)), traces or (trace(),), plan, tuple(results))


def several(resource: Resource = "cpu", horizon: int = DAY) -> list[Result]:
    """Policies close together and far apart, and the oracle, on 40 machines."""
    numbers = np.random.default_rng(0)
    points = {
        "oracle": (0.0, 73.0),
        "default": (2.4, 65.0),
        "diversity": (2.45, 64.3),
        "recent-max": (4.6, 65.3),
        "sum-max": (2.2, 61.0),
        "percentile": (23.0, 68.3),
        "nsigma-v1": (22.0, 68.0),
        "borg-default": (0.0, 9.0),
        "nsigma-v2:n=3,capAtHighest=false,margin=12,cold=12h": (1.4, 39.0),
    }
    return [
        result(
            name,
            list(np.minimum(numbers.exponential(violated, 40), 100.0)),
            list(numbers.normal(saved, 3.0, 40)),
            resource=resource,
            horizon=horizon,
        )
        for name, (violated, saved) in points.items()
    ]
