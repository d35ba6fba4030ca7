"""Arrays and a few facts <-> bytes, without loss: what checkpoints are made of."""

import json
import math
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_MAGIC: Final = b"HRC1"
_HEAD: Final = struct.Struct("<4sI")
_LENGTH: Final = struct.Struct("<I")
_FAST: Final = 1
_DTYPES: Final = ("<f8", "<f4", "<i8")


class CheckpointError(ValueError):
    """The bytes are no checkpoint of ours, are damaged, or belong to another layout; the message says which."""


def pack(facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Bytes that `unpack` turns back into the very same facts and arrays.

    Args:
        facts: anything JSON can say; numbers come back exactly.
        arrays: 64- or 32-bit numbers of any shape, by name.
    """
    named = {name: np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")) for name, array in arrays.items()}
    layout = {name: [array.dtype.str, list(array.shape)] for name, array in named.items()}
    header = json.dumps({"facts": facts, "arrays": layout}).encode()
    body = b"".join([_LENGTH.pack(len(header)), header, *(array.tobytes() for array in named.values())])
    return _HEAD.pack(_MAGIC, zlib.crc32(body)) + zlib.compress(body, _FAST)


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
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


def _read_arrays(body: bytes, start: int, layout: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, (dtype, shape) in layout.items():
        if dtype not in _DTYPES:
            raise CheckpointError(f"array {name!r} has type {dtype!r}, known are {', '.join(_DTYPES)}")
        count = math.prod(shape)
        flat = np.frombuffer(body, dtype=dtype, count=count, offset=start)
        arrays[name] = flat.reshape(shape).copy()
        start += flat.nbytes
    return arrays
