from tests.kubectl_headroom.backtest.results import result
from tools.bench.quality import pooled


def test_packings_are_pooled() -> None:
    """Results of several packings are one, over the machines of all; other resources stay apart."""
    first = result("sum-max", [0.0, 2.0], [40.0, 60.0], [1.0, 1.0])
    second = result("sum-max", [4.0], [80.0], [2.0])
    other = result("sum-max", [9.0], [9.0], resource="memory")
    cpu, memory = pooled([first, other, second])
    assert list(cpu.violation) == [0.0, 0.02, 0.04]
    assert cpu.savings_percent == 65.0
    assert memory.resource == "memory"
