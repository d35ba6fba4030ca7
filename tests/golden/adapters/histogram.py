"""histogram: bucket options and sequences of operations on one histogram."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from agent.numerics.buckets import Buckets, ExponentialBuckets, LinearBuckets
from agent.numerics.histogram import Histogram, HistogramError, ScaledHistogram
from tests.golden.adapters import Adapter
from tests.golden.results import Exact, UnsupportedVectorError


def _buckets(options: Mapping[str, Any]) -> Buckets:
    if options["type"] == "linear":
        return LinearBuckets(options["maxValue"], options["bucketSize"], options["epsilon"])
    if options["type"] == "exponential":
        return ExponentialBuckets(options["maxValue"], options["firstBucketSize"], options["ratio"], options["epsilon"])
    raise UnsupportedVectorError(f"histogram type {options['type']!r}")


def _histogram(options: Mapping[str, Any]) -> Histogram:
    return Histogram.new(_buckets(options), options.get("decayHalfLifeSeconds"))


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
    histogram = _histogram(vector["options"])
    results = []
    for number, step in enumerate(vector["steps"]):
        try:
            answer = _step(histogram, step, vector["options"])
        except HistogramError:  # a step that is refused
            return {"error": True}
        if answer is not None:
            results.append({"step": number, **answer})
    return {"results": results}


def _step(histogram: Histogram, step: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any] | None:
    if step["op"] not in _STEPS:
        raise UnsupportedVectorError(f"step {step['op']!r}")
    return _STEPS[step["op"]](histogram, step, options)


def _add(histogram: Histogram, step: Mapping[str, Any], _options: Mapping[str, Any]) -> None:
    histogram.add(step["value"], step["weight"], step.get("timeUnix"))


def _subtract(histogram: Histogram, step: Mapping[str, Any], _options: Mapping[str, Any]) -> None:
    histogram.subtract(step["value"], step["weight"], step.get("timeUnix"))


def _merge(histogram: Histogram, step: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    other_options = step.get("otherOptions") or options
    other = _histogram(other_options)
    for inner in step["other"]:
        _step(other, inner, other_options)
    histogram.merge(other)


def _percentiles(histogram: Histogram, step: Mapping[str, Any], _options: Mapping[str, Any]) -> dict[str, Any]:
    return {"percentiles": [[share, histogram.percentile(share)] for share in step["percentiles"]]}


def _is_empty(histogram: Histogram, _step: Mapping[str, Any], _options: Mapping[str, Any]) -> dict[str, Any]:
    return {"isEmpty": histogram.is_empty}


def _bucket_weights(histogram: Histogram, _step: Mapping[str, Any], _options: Mapping[str, Any]) -> dict[str, Any]:
    low, high = histogram.bucket_span
    return {
        "bucketWeights": Exact({str(index): weight for index, weight in histogram.bucket_weights.items()}),
        "minBucket": low,
        "maxBucket": high,
        "totalWeight": histogram.total_weight,
        "referenceTimestamp": _text(histogram.reference),
    }


def _save_checkpoint(histogram: Histogram, _step: Mapping[str, Any], _options: Mapping[str, Any]) -> dict[str, Any]:
    scaled = histogram.export()
    return {
        "checkpoint": {
            "bucketWeights": Exact({str(index): weight for index, weight in scaled.bucket_weights.items()}),
            "totalWeight": scaled.total_weight,
            "referenceTimestamp": _text(scaled.reference),
        }
    }


def _load_checkpoint(histogram: Histogram, step: Mapping[str, Any], _options: Mapping[str, Any]) -> dict[str, Any]:
    try:
        histogram.load(_scaled(step.get("checkpoint")))
    except HistogramError:
        return {"loadError": True}
    return {"loadError": False}


def _scaled(checkpoint: Mapping[str, Any] | None) -> ScaledHistogram | None:
    if checkpoint is None:
        return None
    weights = checkpoint.get("bucketWeights") or {}
    return ScaledHistogram(
        checkpoint.get("totalWeight") or 0.0,
        {int(index): weight for index, weight in weights.items()},
        _seconds(checkpoint.get("referenceTimestamp")),
    )


def _seconds(text: str | None) -> float | None:
    return None if text is None else datetime.fromisoformat(text).timestamp()


def _text(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_STEPS: Final[Mapping[str, Callable[[Histogram, Mapping[str, Any], Mapping[str, Any]], dict[str, Any] | None]]] = {
    "add": _add,
    "subtract": _subtract,
    "merge": _merge,
    "percentiles": _percentiles,
    "is_empty": _is_empty,
    "bucket_weights": _bucket_weights,
    "save_checkpoint": _save_checkpoint,
    "load_checkpoint": _load_checkpoint,
}

OPERATIONS: Final[Mapping[str, Adapter]] = {
    "options": _options,
    "options_validation": _options_validation,
    "sequence": _sequence,
}
