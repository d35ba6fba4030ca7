import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from agent.numerics.packing import CheckpointError, pack, unpack

PACKED = pack({"rows": 2}, {"weights": np.arange(6.0).reshape(2, 3)})


@given(
    facts=st.dictionaries(st.text(), st.one_of(st.floats(allow_nan=False), st.integers(), st.text(), st.none())),
    table=arrays.arrays(np.float64, arrays.array_shapes(min_dims=1, max_dims=3, min_side=0)),
)
def test_round_trip_loses_nothing(facts: dict[str, object], table: np.ndarray) -> None:
    again, found = unpack(pack(facts, {"table": table}))
    assert again == facts
    np.testing.assert_array_equal(found["table"], table)


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
        facts, found = unpack(bytes(changed))
    except CheckpointError:
        return
    assert facts == {"rows": 2}
    np.testing.assert_array_equal(found["weights"], np.arange(6.0).reshape(2, 3))
