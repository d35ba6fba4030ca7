import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from agent.numerics.history import CPU_HALF_LIFE_SECONDS, ResourceHistory, cpu_history, memory_history
from agent.numerics.packing import CheckpointError, pack, unpack

START = 1_700_000_000.0
DAY = 86400.0
ROWS = np.array([0, 1])
HALF_MINUTE = np.full(2, 30.0)


def days_of(
    history_rounds: int, value: float, history: ResourceHistory | None = None, start: float = START
) -> ResourceHistory:
    """A history of two rows that saw the value every 30 seconds."""
    history = history or cpu_history()
    history.grow(2)
    for number in range(1, history_rounds + 1):
        history.learn(ROWS, np.full(2, value), start + 30.0 * number, HALF_MINUTE)
    return history


def test_span_is_observed_time() -> None:
    assert days_of(100, 1.0).observed.tolist() == [3000.0, 3000.0]


def test_absence_ages_nothing() -> None:
    """After three days without the agent one new sample weighs like one more, not like sixty-four half-lives."""
    history = days_of(2000, 1.0)
    before = history.moments.weights[0]
    history.learn(ROWS, np.full(2, 5.0), START + 60_000.0 + 3 * DAY, HALF_MINUTE)
    expected = (before * 0.5 ** (30 / CPU_HALF_LIFE_SECONDS) + 5.0) / (
        before * 0.5 ** (30 / CPU_HALF_LIFE_SECONDS) + 1.0
    )
    assert history.moments.mean(ROWS)[0] == pytest.approx(expected)
    assert history.observed[0] == 60_030.0
    assert history.histograms.percentiles(ROWS, 0.95)[0] < 1.1


def test_late_round_counts_its_time() -> None:
    """A round that comes after 40 seconds, fully measured, is 40 seconds of evidence."""
    history = days_of(1, 1.0)
    history.learn(ROWS, np.ones(2), START + 70.0, np.full(2, 39.0))
    assert history.observed[0] == 70.0


def test_sparse_round_counts_measured_values() -> None:
    history = days_of(1, 1.0)
    history.learn(ROWS, np.ones(2), START + 60.0, np.full(2, 10.0))
    assert history.observed[0] == 40.0


def test_warm_needs_span_and_samples() -> None:
    """Two samples make 60 seconds warm; one sample is never warm, however short the period."""
    assert days_of(2, 1.0).warm(ROWS, 60.0).all()
    assert not days_of(2, 1.0).warm(ROWS, 61.0).any()
    assert not days_of(1, 1.0).warm(ROWS, 0.0).any()


def test_checkpoint_loses_nothing() -> None:
    history = days_of(50, 1.3)
    again = cpu_history()
    again.grow(2)
    again.restore(history.checkpoint(ROWS), ROWS)
    for entry in (history, again):
        days_of(5, 2.0, entry, START + 5000.0)
    assert again.checkpoint(ROWS) == history.checkpoint(ROWS)


def test_foreign_checkpoint_is_refused() -> None:
    history, memory = days_of(5, 1.0), memory_history()
    memory.grow(2)
    with pytest.raises(CheckpointError):
        memory.restore(history.checkpoint(ROWS), ROWS)
    with pytest.raises(CheckpointError):
        history.restore(history.checkpoint(ROWS[:1]), ROWS)
    assert memory.observed.tolist() == [0.0, 0.0]


def test_copy_continues_evidence() -> None:
    """A row that continues another's history has its moments, its span, and a place for its next sample."""
    history = days_of(100, 2.0)
    history.clear(1)
    history.copy(0, 1)
    history.learn(np.array([1]), np.array([2.0]), START + 9000.0, np.array([30.0]))
    assert history.moments.mean(ROWS).tolist() == pytest.approx([2.0, 2.0])
    assert history.observed.tolist() == [3000.0, 3030.0]


PACKED = pack({"rows": 2}, {"weights": np.arange(6.0).reshape(2, 3)})


@given(
    facts=st.dictionaries(st.text(), st.one_of(st.floats(allow_nan=False), st.integers(), st.text(), st.none())),
    table=arrays.arrays(np.float64, arrays.array_shapes(min_dims=1, max_dims=3, min_side=0)),
)
def test_round_trip_loses_nothing(facts: dict[str, object], table: np.ndarray) -> None:
    again, result = unpack(pack(facts, {"table": table}))
    assert again == facts
    np.testing.assert_array_equal(result["table"], table)


@pytest.mark.parametrize(
    "damaged", [b"", b"HRC1", b"nonsense, and more of it", PACKED[:-3], PACKED[:30], b"X" + PACKED[1:]]
)
def test_damage_is_found(damaged: bytes) -> None:
    with pytest.raises(CheckpointError):
        unpack(damaged)


@given(position=st.integers(0, len(PACKED) - 1), bit=st.integers(0, 7))
def test_flipped_bit_is_refused_or_changes_no_number(position: int, bit: int) -> None:
    changed = bytearray(PACKED)
    changed[position] ^= 1 << bit
    try:
        facts, result = unpack(bytes(changed))
    except CheckpointError:
        return
    assert facts == {"rows": 2}
    np.testing.assert_array_equal(result["weights"], np.arange(6.0).reshape(2, 3))
