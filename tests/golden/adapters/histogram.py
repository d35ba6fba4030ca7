"""histogram: bucket options and sequences of operations on one histogram."""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from agent.numerics.histogram import YEAR_ONE, Buckets, HistogramBank, exponential
from tests.golden.adapters import Adapter
from tests.golden.results import Exact, UnsupportedVectorError

_ROW: Final = np.zeros(1, np.intp)


def _buckets(options: Mapping[str, Any]) -> Buckets:
    if options["type"] == "linear":
        starts = np.arange(math.ceil(options["maxValue"] / options["bucketSize"]) + 1) * float(options["bucketSize"])
        return Buckets(starts, starts[1:], options["epsilon"])
    if options["type"] == "exponential":
        return exponential(options["maxValue"], options["firstBucketSize"], options["ratio"], options["epsilon"])
    raise UnsupportedVectorError(f"histogram type {options['type']!r}")


def _options(vector: dict[str, Any]) -> dict[str, Any]:
    buckets = _buckets(vector["options"])
    values = vector.get("findBucketValues", [])
    found = buckets.find(np.array(values, dtype=np.float64))
    return {
        "epsilon": buckets.epsilon,
        "numBuckets": len(buckets.starts),
        "bucketStarts": [[index, float(buckets.starts[index])] for index in vector.get("bucketStartIndexes", ())],
        "findBucket": [[value, int(index)] for value, index in zip(values, found, strict=True)],
    }


def _options_validation(vector: dict[str, Any]) -> dict[str, Any]:
    try:
        _buckets(vector["options"])
    except ValueError:
        return {"error": True}
    return {"error": False}


def _sequence(vector: dict[str, Any]) -> dict[str, Any]:
    options = vector["options"]
    bank = HistogramBank(_buckets(options), options.get("decayHalfLifeSeconds") or math.inf, rows=1)
    results = []
    for number, step in enumerate(vector["steps"]):
        if step["op"] not in _STEPS:
            raise UnsupportedVectorError(f"step {step['op']!r}")
        answer = _STEPS[step["op"]](bank, step)
        if answer is not None:
            results.append({"step": number, **answer})
    return {"results": results}


def _add(bank: HistogramBank, step: Mapping[str, Any]) -> None:
    time = YEAR_ONE if step.get("timeUnix") is None else step["timeUnix"]
    bank.add(_ROW, np.array([step["value"]], float), np.array([time], float), step["weight"])


def _percentiles(bank: HistogramBank, step: Mapping[str, Any]) -> dict[str, Any]:
    return {"percentiles": [[share, float(bank.percentiles(_ROW, share)[0])] for share in step["percentiles"]]}


def _is_empty(bank: HistogramBank, _step: Mapping[str, Any]) -> dict[str, Any]:
    return {"isEmpty": bool((bank.weights < bank.buckets.epsilon).all())}


def _bucket_weights(bank: HistogramBank, _step: Mapping[str, Any]) -> dict[str, Any]:
    low, high = bank.spans(bank.weights)
    reference = float(bank.references[0])
    text = datetime.fromtimestamp(reference, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "bucketWeights": Exact({str(index): float(bank.weights[0, index]) for index in np.flatnonzero(bank.weights)}),
        "minBucket": int(low[0]),
        "maxBucket": int(high[0]),
        "totalWeight": float(bank.totals[0]),
        "referenceTimestamp": None if reference == YEAR_ONE else text,
    }


_STEPS: Final[Mapping[str, Callable[[HistogramBank, Mapping[str, Any]], dict[str, Any] | None]]] = {
    "add": _add,
    "percentiles": _percentiles,
    "is_empty": _is_empty,
    "bucket_weights": _bucket_weights,
}

OPERATIONS: Final[Mapping[str, Adapter]] = {
    "options": _options,
    "options_validation": _options_validation,
    "sequence": _sequence,
}
