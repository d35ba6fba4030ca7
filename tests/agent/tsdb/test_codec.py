import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from agent.tsdb import codec
from agent.tsdb.series import Integers

INTEGERS = hnp.arrays(np.int64, st.integers(1, 200), elements=st.integers(-(2**53), 2**53))


@given(INTEGERS)
def test_chunks_are_lossless(values: Integers) -> None:
    (result, same), present = codec.decode(codec.encode([values, values * 0]), 2, len(values))
    assert present is None
    assert np.array_equal(result, values)
    assert not same.any()


@given(st.lists(st.booleans(), min_size=1, max_size=300))
def test_series_that_lacks_ticks_keeps_its_own(there: list[bool]) -> None:
    mask = np.array(there)
    values = np.arange(mask.sum(), dtype=np.int64) * 7
    (result,), present = codec.decode(codec.encode([values], mask), 1, len(mask))
    assert present is not None
    assert np.array_equal(present, mask)
    assert np.array_equal(result, values)


@given(st.lists(st.integers(1, 10**7), max_size=300), st.integers(0, 4_000_000_000_000))
def test_times_are_lossless_to_the_millisecond(gaps: list[int], start: int) -> None:
    times = np.cumsum([start, *gaps]).astype(np.int64)
    assert np.array_equal(codec.decode_times(codec.encode_times(times)), times)


def test_constant_series_takes_a_few_bytes() -> None:
    assert len(codec.encode([np.full(600, 4096 * 1234)])) < 30


def test_noisy_series_are_small() -> None:
    """A CPU series with 10 milli-cores of noise costs under 1.5 bytes a sample, memory moving in pages under 1.2."""
    chance = np.random.default_rng(1)
    cpu = codec.to_steps(chance.normal(0.2, 0.01, 600), codec.steps_per_unit("cpu"))
    memory = np.cumsum(chance.integers(-20, 21, 600) * 4096)
    assert len(codec.encode([cpu])) < 1.5 * 600
    assert len(codec.encode([memory])) < 1.2 * 600


def test_memory_is_kept_to_the_byte_and_cpu_to_a_tenth_of_a_millicore() -> None:
    assert codec.to_steps(np.array([12345.0]), codec.steps_per_unit("memory")).tolist() == [12345]
    assert codec.to_steps(np.array([0.12344]), codec.steps_per_unit("cpu")).tolist() == [1234]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_malformed_numbers_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        codec.to_steps(np.array([1.0, value]), 1.0)
