import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from agent.numerics.histogram import YEAR_ONE, Buckets, Checkpoint, HistogramBank, exponential, linear
from tests.golden.results import Exact, UnsupportedVectorError

_ROW: Final = np.zeros(1, np.intp)


def _buckets(options: Mapping[str, Any]) -> Buckets:
    if options["type"] == "linear":
        return linear(options["maxValue"], options["bucketSize"], options["epsilon"])
    if options["type"] == "exponential":
        return exponential(options["maxValue"], options["firstBucketSize"], options["ratio"], options["epsilon"])
    raise UnsupportedVectorError(f"histogram type {options['type']!r}")


def _bank(options: Mapping[str, Any]) -> HistogramBank:
    return HistogramBank(_buckets(options), options.get("decayHalfLifeSeconds") or math.inf, rows=1)


def _options(vector: dict[str, Any]) -> dict[str, Any]:
    buckets = _buckets(vector["options"])
    values = vector.get("findBucketValues", [])
    result = buckets.find(np.array(values, dtype=np.float64))
    return {
        "epsilon": buckets.epsilon,
        "numBuckets": len(buckets.starts),
        "bucketStarts": [[index, float(buckets.starts[index])] for index in vector.get("bucketStartIndexes", ())],
        "findBucket": [[value, int(index)] for value, index in zip(values, result, strict=True)],
    }


def _options_validation(vector: dict[str, Any]) -> dict[str, Any]:
    try:
        _buckets(vector["options"])
    except ValueError:
        return {"error": True}
    return {"error": False}


def _sequence(vector: dict[str, Any]) -> dict[str, Any]:
    bank, results = _bank(vector["options"]), []
    for number, step in enumerate(vector["steps"]):
        try:
            answer = _step(bank, step, vector["options"])
        except ValueError:  # a step that is refused
            return {"error": True}
        if answer is not None:
            results.append({"step": number, **answer})
    return {"results": results}


def _step(bank: HistogramBank, step: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any] | None:
    if step["op"] == "merge":
        other_options = step.get("otherOptions") or options
        other = _bank(other_options)
        for inner in step["other"]:
            _step(other, inner, other_options)
        bank.merge(other)
        return None
    if step["op"] not in _STEPS:
        raise UnsupportedVectorError(f"step {step['op']!r}")
    return _STEPS[step["op"]](bank, step)


def _sample(step: Mapping[str, Any]) -> tuple[Any, Any, Any, float]:
    time = YEAR_ONE if step.get("timeUnix") is None else step["timeUnix"]
    return _ROW, np.array([step["value"]], float), np.array([time], float), step["weight"]


def _add(bank: HistogramBank, step: Mapping[str, Any]) -> None:
    bank.add(*_sample(step))


def _subtract(bank: HistogramBank, step: Mapping[str, Any]) -> None:
    bank.subtract(*_sample(step))


def _percentiles(bank: HistogramBank, step: Mapping[str, Any]) -> dict[str, Any]:
    return {"percentiles": [[share, float(bank.percentiles(_ROW, share)[0])] for share in step["percentiles"]]}


def _is_empty(bank: HistogramBank, _step: Mapping[str, Any]) -> dict[str, Any]:
    return {"isEmpty": bool((bank.weights < bank.buckets.epsilon).all())}


def _bucket_weights(bank: HistogramBank, _step: Mapping[str, Any]) -> dict[str, Any]:
    low, high = bank.spans(bank.weights)
    return {
        "bucketWeights": Exact({str(index): float(bank.weights[0, index]) for index in np.flatnonzero(bank.weights)}),
        "minBucket": int(low[0]),
        "maxBucket": int(high[0]),
        "totalWeight": float(bank.totals[0]),
        "referenceTimestamp": _text(float(bank.references[0])),
    }


def _text(reference: float) -> str | None:
    return None if reference == YEAR_ONE else datetime.fromtimestamp(reference, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _save_checkpoint(bank: HistogramBank, _step: Mapping[str, Any]) -> dict[str, Any]:
    saved = bank.export(0)
    weights = Exact({str(index): weight for index, weight in saved.bucket_weights.items()})
    result = {"bucketWeights": weights, "totalWeight": saved.total_weight, "referenceTimestamp": _text(saved.reference)}
    return {"checkpoint": result}


def _load_checkpoint(bank: HistogramBank, step: Mapping[str, Any]) -> dict[str, Any]:
    stored = step.get("checkpoint")
    if stored is None:
        return {"loadError": True}
    text = stored.get("referenceTimestamp")
    reference = YEAR_ONE if text is None else datetime.fromisoformat(text).timestamp()
    weights = {int(index): weight for index, weight in (stored.get("bucketWeights") or {}).items()}
    try:
        bank.load(0, Checkpoint(stored.get("totalWeight") or 0.0, weights, reference))
    except ValueError:
        return {"loadError": True}
    return {"loadError": False}


_STEPS: Final[Mapping[str, Callable[[HistogramBank, Mapping[str, Any]], dict[str, Any] | None]]] = {
    "add": _add,
    "subtract": _subtract,
    "percentiles": _percentiles,
    "is_empty": _is_empty,
    "bucket_weights": _bucket_weights,
    "save_checkpoint": _save_checkpoint,
    "load_checkpoint": _load_checkpoint,
}
