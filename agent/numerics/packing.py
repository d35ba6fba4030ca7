"""Arrays and a few facts <-> bytes, without loss: what checkpoints are made of."""

import json
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from agent.numerics.arrays import FloatArray

_MAGIC: Final = b"HRC1"
_HEAD: Final = struct.Struct("<4sI")
_LENGTH: Final = struct.Struct("<I")
_FAST: Final = 1


class CheckpointError(ValueError):
    """The bytes are no checkpoint of ours, are damaged, or belong to another layout; the message says which."""


def pack(facts: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> bytes:
    """Bytes that `unpack` turns back into the very same facts and arrays.

    Args:
        facts: anything JSON can say; numbers come back exactly.
        arrays: double-precision numbers of any shape, by name.
    """
    named = {name: np.ascontiguousarray(array, dtype="<f8") for name, array in arrays.items()}
    header = json.dumps({"facts": facts, "shapes": {name: array.shape for name, array in named.items()}}).encode()
    body = b"".join([_LENGTH.pack(len(header)), header, *(array.tobytes() for array in named.values())])
    return _HEAD.pack(_MAGIC, zlib.crc32(body)) + zlib.compress(body, _FAST)


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """The facts and arrays that `pack` was given.

    Raises:
        CheckpointError: the bytes are not complete and unchanged.
    """
    body = _checked_body(data)
    try:
        (length,) = _LENGTH.unpack_from(body)
        header = json.loads(body[_LENGTH.size : _LENGTH.size + length])
        return header["facts"], _read_arrays(body, _LENGTH.size + length, header["shapes"])
    except (KeyError, TypeError, ValueError, struct.error) as error:
        raise CheckpointError(f"the checkpoint's layout cannot be read: {error}") from error


def _checked_body(data: bytes) -> bytes:
    if len(data) < _HEAD.size:
        raise CheckpointError(f"a checkpoint has at least {_HEAD.size} bytes, this has {len(data)}")
    magic, checksum = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise CheckpointError("this is no checkpoint of this version of the agent")
    try:
        body = zlib.decompress(data[_HEAD.size :])
    except zlib.error as error:
        raise CheckpointError(f"the checkpoint is damaged: {error}") from error
    if zlib.crc32(body) != checksum:
        raise CheckpointError("the checkpoint is damaged: its checksum is wrong")
    return body


def _read_arrays(body: bytes, start: int, shapes: Mapping[str, Sequence[int]]) -> dict[str, FloatArray]:
    arrays: dict[str, FloatArray] = {}
    for name, shape in shapes.items():
        flat = np.frombuffer(body, dtype="<f8", count=math.prod(shape), offset=start)
        arrays[name] = flat.reshape(shape).astype(np.float64)
        start += flat.nbytes
    return arrays
