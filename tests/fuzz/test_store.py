"""The store's reads from its file: chunks, times, checkpoints, and the file itself."""

import contextlib
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from agent.numerics import packing
from agent.numerics.packing import CheckpointError
from agent.samples import CPU, NODE, Sample
from agent.trainer.trainer import Trainer
from agent.tsdb import codec
from agent.tsdb.codec import CodecError
from agent.tsdb.schema import StoreError
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from tests.fuzz.inputs import Json, any_json, objects
from tests.fuzz.strength import answer_or_refusal, fuzz

START = 1_700_000_000.0
SETTINGS = StoreSettings(block_ticks=60)
WHOLE = st.integers(-(2**63), 2**63 - 1)
HEADS = st.builds(
    struct.Struct("<IB").pack, st.integers(0, 40) | st.sampled_from((2**16, 2**31, 2**32 - 1)), st.integers(0, 255)
)
FIELDS = st.builds(struct.Struct("<Bqq").pack, st.integers(0, 255), WHOLE, WHOLE)
FORGED = st.builds(lambda head, field, rest: zlib.compress(head + field + rest), HEADS, FIELDS, st.binary(max_size=200))
SOUND = (
    codec.encode([np.arange(30) * 7]),
    codec.encode([np.arange(3)] * 3, np.arange(30) < 3),
    codec.encode_times(np.arange(1_700_000_000_000, 1_700_000_030_000, 1000)),
)
CHECKPOINT = packing.pack({"rows": 2}, {"observed": np.array([1.0, 2.0])})
EVERYONE = {name: ["prod", None, None] for name in ("node", "sys", "prod", "mid", "batch", "free", "pod-a")}


@st.composite
def hurt(draw: st.DrawFn, *originals: bytes) -> bytes:
    """Sound bytes of which some changed, or the end is missing."""
    data = bytearray(draw(st.sampled_from(originals)))
    for at, byte in draw(st.lists(st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)), max_size=6)):
        data[at] = byte
    return bytes(data[: draw(st.integers(0, len(data)) | st.just(len(data)))])


@fuzz(data=hurt(*SOUND) | FORGED | st.binary(), fields=st.sampled_from((1, 3)), times=st.integers(0, 64))
def test_chunk_has_a_number_for_each_time_or_is_damaged(data: bytes, fields: int, times: int) -> None:
    result = answer_or_refusal(lambda: codec.decode(data, fields, times), CodecError, "damaged chunk")
    if result is not None:
        arrays, present = result
        count = times if present is None else int(np.count_nonzero(present))
        assert [array.shape for array in arrays] == [(count,)] * fields
        assert all(array.dtype == np.int64 for array in arrays)
    when = answer_or_refusal(lambda: codec.decode_times(data), CodecError, "damaged")
    assert when is None or (when.dtype == np.int64 and 1 <= len(when) < 2**24)


@fuzz(
    data=hurt(CHECKPOINT, *Trainer().checkpoints().values()) | st.binary(),
    forged=objects({"series": EVERYONE, "trained_until": 1.5}) | any_json(),
)
def test_checkpoint_comes_back_or_is_damaged(data: bytes, forged: Json) -> None:
    """A list of who was learned that is whole, and makes no sense, is refused, too."""
    sound = Trainer().checkpoints()
    answer_or_refusal(lambda: packing.unpack(data), CheckpointError, "checkpoint")
    answer_or_refusal(lambda: Trainer().restore(dict.fromkeys(sound, data)), CheckpointError, "checkpoint")
    try:
        roster = packing.pack(forged, {})
    except (ValueError, RecursionError):  # no JSON at all
        return
    name = next(name for name in sound if name.endswith("roster"))
    answer_or_refusal(lambda: Trainer().restore({**sound, name: roster}), CheckpointError)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "t.db"
    with Tsdb.open(path, SETTINGS) as store:
        for now in START + np.arange(200.0):
            store.append(now, [Sample(CPU, NODE, now, 0.5), Sample(CPU, "a", now, 0.25)])
            store.maintain(now)
        store.save_checkpoints({"n": b"1"})
        store.checkpoint()
    return path


@fuzz(
    patches=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=64)), max_size=4),
    keep=st.floats(0, 1) | st.just(1.0),
)
def test_file_is_used_as_far_as_it_goes(database: Path, patches: list[tuple[float, bytes]], keep: float) -> None:
    """A file with any damage is used, or set aside: ticks can be stored and read after it."""
    content = bytearray(database.read_bytes())
    for where, data in patches:
        at = int(where * (len(content) - len(data)))
        content[at : at + len(data)] = data
    folder = database.parent / "hurt"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    (folder / "t.db").write_bytes(content[: int(keep * len(content))])
    now = START + 1000
    store = answer_or_refusal(lambda: Tsdb.open(folder / "t.db", SETTINGS), StoreError, "t.db")
    if store is None:
        return
    assert patches or keep < 1.0 or len(store.window(CPU, "a", START - 1, now)) == 200
    with store:
        for _ in range(2):
            with contextlib.suppress(StoreError):
                store.append(now, [Sample(CPU, "a", now, 0.5)])
                store.load_checkpoints()
                store.maintain(now)
                store.minutes(CPU, START, now)
                store.window(CPU, "a", START, now)
            now += 1.0
        assert store.window(CPU, "a", now - 1.5, now).values.tolist() == [0.5]
