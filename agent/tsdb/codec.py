"""Chunk compression: arrays of integers <-> few bytes. Pure; knows nothing of tables.

A value is kept as a whole number of steps: bytes as they are, CPU in tenths of a milli-core. Each array is turned into
differences where that makes it smaller, divided by the differences' common divisor (memory moves in pages), split into
byte planes, and deflated: about 1.2 bytes for a noisy CPU sample, nothing for one that does not change.
"""

import struct
import zlib
from collections.abc import Sequence

import numpy as np

from agent.samples import CPU
from agent.tsdb.series import Floats, Integers, Mask

_FIELD = struct.Struct("<Bqq")  # how (width in the low bits, differences in bit 4), first or lowest value, divisor
_DIFFERENCES = 0x10
_COUNT = struct.Struct("<IB")  # values per field, flags
_PARTIAL = 0x01
_LEVEL = 6
_MOST_TIMES = 1 << 24
_WIDTHS = (1, 2, 4, 8)
LARGEST = float(1 << 53)  # whole numbers beyond this are not exact in a float either

_UNREADABLE = (zlib.error, struct.error, ValueError, IndexError, OverflowError)


class CodecError(ValueError):
    """A chunk with bytes that the store did not write."""


def steps_per_unit(metric: str) -> float:
    """The precision of a metric: steps per core, byte or ratio."""
    if metric.startswith("memory"):
        return 1.0
    return 10_000.0 if metric == CPU else 1_000_000.0


def to_steps(values: Floats, scale: Floats | float) -> Integers:
    """Values as whole numbers of steps, rounded to the nearest.

    Raises:
        ValueError: A value is not finite, or too large for a 64-bit count of steps.
    """
    scaled = np.rint(values * scale)
    if not bool(np.all(np.abs(scaled) < LARGEST)):  # NaN compares false
        raise ValueError("a sample is not a finite number, or is too large")
    return scaled.astype(np.int64)


def encode(fields: Sequence[Integers], present: Mask | None = None) -> bytes:
    """Several equally long arrays, shape (N,), as one chunk, and which of the block's T times they have (None: all)."""
    parts = [_COUNT.pack(len(fields[0]), 0 if present is None else _PARTIAL)]
    if present is not None:
        parts.append(np.packbits(present).tobytes())
    parts += [_encode_field(values) for values in fields]
    return zlib.compress(b"".join(parts), _LEVEL)


def decode(data: bytes, fields: int, times: int) -> tuple[list[Integers], Mask | None]:
    """Undo `encode`: so many arrays, of a block of so many times.

    Raises:
        CodecError: The bytes are damaged.
    """
    try:
        raw = zlib.decompress(data)
        count, flags = _COUNT.unpack_from(raw)
        at = _COUNT.size
        present = None
        if flags & _PARTIAL:
            size = (times + 7) // 8
            present = np.unpackbits(np.frombuffer(raw, np.uint8, size, at), count=times).astype(bool)
            at += size
        if count != (times if present is None else int(np.count_nonzero(present))):
            raise CodecError(f"damaged chunk: {count} values for {times} times")
        arrays = []
        for _ in range(fields):
            values, at = _decode_field(raw, at, count)
            arrays.append(values)
    except _UNREADABLE as error:
        raise error if isinstance(error, CodecError) else CodecError(f"damaged chunk: {error}") from error
    return arrays, present


def encode_times(times_ms: Integers) -> bytes:
    """Rising times as first value, and differences of differences [milliseconds]."""
    gaps = np.diff(times_ms)
    return zlib.compress(
        _COUNT.pack(len(times_ms), 0) + _FIELD.pack(0, int(times_ms[0]), 0) + _encode_field(gaps), _LEVEL
    )


def decode_times(data: bytes) -> Integers:
    """Undo `encode_times` [milliseconds].

    Raises:
        CodecError: The bytes are damaged.
    """
    try:
        raw = zlib.decompress(data)
        count, _ = _COUNT.unpack_from(raw)
        if not 0 < count <= _MOST_TIMES:
            raise CodecError(f"damaged times: {count} of them")
        _, first, _ = _FIELD.unpack_from(raw, _COUNT.size)
        gaps, _ = _decode_field(raw, _COUNT.size + _FIELD.size, count - 1)
        times = np.concatenate([np.array([first]), first + np.cumsum(gaps)])
        if not bool(np.all(times[1:] > times[:-1])):
            raise CodecError("damaged times: they do not rise")
    except _UNREADABLE as error:
        raise error if isinstance(error, CodecError) else CodecError(f"damaged times: {error}") from error
    return times


def _encode_field(values: Integers) -> bytes:
    if not len(values):
        return b""
    how, base = 0, int(values.min())
    body = values - base
    if len(values) > 1:
        steps = np.diff(values)
        if float(np.std(steps)) < float(np.std(values)):
            how, base = _DIFFERENCES, int(values[0])
            body = steps
    divisor = int(np.gcd.reduce(body)) if len(body) else 0
    if divisor == 0:
        return _FIELD.pack(how, base, 0)
    body = body // divisor
    if how:
        body = (body << 1) ^ (body >> 63)
    top = int(body.max())
    code = next(code for code, width in enumerate(_WIDTHS) if top < 1 << (8 * width - (width == _WIDTHS[-1])))
    width = _WIDTHS[code]
    planes = body.astype(f"<u{width}").view(np.uint8).reshape(-1, width).T
    return _FIELD.pack(how | (code + 1), base, divisor) + planes.tobytes()


def _decode_field(raw: bytes, at: int, count: int) -> tuple[Integers, int]:
    if not count:
        return np.empty(0, np.int64), at
    how, base, divisor = _FIELD.unpack_from(raw, at)
    at += _FIELD.size
    differences, code = bool(how & _DIFFERENCES), how & 0x0F
    if not code:
        return np.full(count, base, np.int64), at
    if code > len(_WIDTHS):
        raise CodecError(f"damaged chunk: numbers of kind {code}")
    width, number = _WIDTHS[code - 1], count - 1 if differences else count
    planes = np.frombuffer(raw, np.uint8, number * width, at).reshape(width, number)
    body = np.ascontiguousarray(planes.T).view(f"<u{width}").reshape(number).astype(np.int64)
    at += number * width
    if differences:
        body = ((body >> 1) ^ -(body & 1)) * divisor
        return np.concatenate([[base], base + np.cumsum(body)]).astype(np.int64), at
    return base + body * divisor, at
