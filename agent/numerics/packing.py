"""Lossless encoding of arrays and a few facts as bytes, for checkpoints."""

import json
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from agent.numerics.arrays import FloatArray, SingleArray

_MAGIC: Final = b"HRC2"
_HEAD: Final = struct.Struct("<4sI")
_LENGTH: Final = struct.Struct("<I")
_FAST: Final = 1
_KINDS: Final = ("<f8", "<f4")


class CheckpointError(ValueError):
    """The bytes are no checkpoint of ours, are damaged, or belong to another layout; the message names it."""


def pack(facts: Mapping[str, Any], arrays: Mapping[str, FloatArray | SingleArray]) -> bytes:
    """Bytes that `unpack` turns back into the very same facts and arrays.

    Args:
        facts: any JSON; numbers are restored exactly.
        arrays: numbers of double or single precision and of any shape, by name.
    """
    named = {name: np.ascontiguousarray(array, dtype=f"<f{array.itemsize}") for name, array in arrays.items()}
    layout = {name: (array.dtype.str, array.shape) for name, array in named.items()}
    header = json.dumps({"facts": facts, "arrays": layout}).encode()
    body = b"".join([_LENGTH.pack(len(header)), header, *(array.tobytes() for array in named.values())])
    return _HEAD.pack(_MAGIC, zlib.crc32(body)) + zlib.compress(body, _FAST)


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The facts and arrays that `pack` was given.

    Raises:
        CheckpointError: the bytes are not complete and unchanged.
    """
    body = _checked_body(data)
    try:
        (length,) = _LENGTH.unpack_from(body)
        header = json.loads(body[_LENGTH.size : _LENGTH.size + length])
        return header["facts"], _read_arrays(body, _LENGTH.size + length, header["arrays"])
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


def _read_arrays(body: bytes, start: int, layout: Mapping[str, tuple[str, Sequence[int]]]) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    for name, (kind, shape) in layout.items():
        if kind not in _KINDS:
            raise CheckpointError(f"the checkpoint holds numbers of kind {kind!r}")
        flat = np.frombuffer(body, dtype=kind, count=math.prod(shape), offset=start)
        arrays[name] = flat.reshape(shape).astype(flat.dtype.newbyteorder("="))
        start += flat.nbytes
    return arrays
