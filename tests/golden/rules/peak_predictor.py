"""Rules for `peak_predictor.json`."""

import itertools
import json
import math
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from agent.numerics.buckets import CPU_BUCKETS, MEMORY_BUCKETS
from agent.numerics.histogram import Histogram
from crds.priority import priority_class
from tests.golden.adapters import FAMILIES, Adapter
from tests.golden.adapters.pods import kubernetes_pod
from tests.golden.rules.rule import INTERNALS, Deviation, Input, OutOfScope, Rule

_RAW: Final = "node.koordinator.sh/raw-allocatable"
_RESOURCES: Final = (("cpu", CPU_BUCKETS, 12 * 3600.0, 1000), ("memory", MEMORY_BUCKETS, 24 * 3600.0, 1))
_SHARES: Final = {"p60": 0.6, "p90": 0.9, "p95": 0.95, "p98": 0.98, "max": 1.0}
_INTERVAL: Final = 60.0
_BANDS: Final = ("koord-prod", "koord-mid", "koord-batch", "koord-free")

Amounts = tuple[float, float]
Samples = list[tuple[float, Amounts]]


def _raw(vector: Input) -> dict[str, Any] | None:
    """The annotation raw-allocatable, when it holds an object."""
    text = ((vector.get("node") or {}).get("annotations") or {}).get(_RAW)
    try:
        content = json.loads(text) if text else None
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _raw_is_partial(vector: Input) -> bool:
    raw = _raw(vector)
    return raw is not None and any(name not in raw for name in (vector["node"].get("allocatable") or {}))


def _with_whole_annotation(vector: Input, _theirs: Any) -> Any:  # noqa: ANN401
    """What we answer to a node whose annotation repeats what it does not change."""
    adapter: Adapter = pkgutil.resolve_name(FAMILIES["peak_predictor"])[vector["op"]]
    node = vector["node"]
    whole = {**node["allocatable"], **(_raw(vector) or {})}
    return adapter({**vector, "node": {**node, "annotations": {**node["annotations"], _RAW: json.dumps(whole)}}})


def _trained(vector: Input, theirs: Any) -> Any:  # noqa: ANN401
    """What the peer learns where we learn the same; elsewhere what histograms of our samples say."""
    own = {uid: list(samples) for uid, samples in _our_samples(vector).items() if samples}
    peers = _their_samples(vector)
    predictions = {}
    for uid, expected in theirs["predictions"].items():
        samples = own.get(uid)
        same = samples is not None and samples == peers.get(uid) and _is_steady(samples)
        predictions[uid] = expected if same else samples and _percentiles(samples)
    return {"modelUIDs": sorted(own), "predictions": predictions}


def _our_samples(vector: Input) -> dict[str, Samples]:
    """One sample per round of what was measured, and of nothing else.

    A class without pods gets none, nor does one of which a pod that used to be measured is missing; the system gets
    none when the node or a pod is missing; pods without a class count as Prod.
    """
    found: dict[str, Samples] = {}
    before: set[str] = set()
    for now, node, usage in _rounds(vector):
        everyone: dict[str, list[Amounts | None]] = {}
        for short in vector["pods"]:
            uid, amounts = short["uid"], usage.get(short["uid"])
            band = str(priority_class(kubernetes_pod(short))) or "koord-prod"
            everyone.setdefault("all", []).append(amounts)
            if amounts is not None or uid in before:
                everyone.setdefault(band, []).append(amounts)
            if amounts is not None:
                found.setdefault(uid, []).append((now, amounts))
                before.add(uid)
        if node is not None:
            found.setdefault("__node__", []).append((now, node))
        sums = {f"__node-{band}__": _total(everyone.get(band, [])) for band in _BANDS if everyone.get(band)}
        sums["__node-sys__"] = _rest(node, _total(everyone.get("all", [])))
        for uid, total in sums.items():
            if total is not None:
                found.setdefault(uid, []).append((now, total))
    return found


def _their_samples(vector: Input) -> dict[str, Samples]:
    """What the peer adds in each round: zeros for what is not there."""
    found: dict[str, Samples] = {}
    for now, node, usage in _rounds(vector):
        bands: dict[str, list[Amounts | None]] = {band: [] for band in (*_BANDS, "")}
        measured = [short for short in vector["pods"] if usage.get(short["uid"]) is not None]
        for short in measured:
            found.setdefault(short["uid"], []).append((now, usage[short["uid"]]))
            bands[str(priority_class(kubernetes_pod(short)))].append(usage[short["uid"]])
        if node is not None:
            found.setdefault("__node__", []).append((now, node))
        for band, amounts in bands.items():
            found.setdefault(f"__node-{band}__", []).append((now, _total(amounts) or (0.0, 0.0)))
        rest = _rest(node or (0.0, 0.0), _total([usage[short["uid"]] for short in measured]))
        found.setdefault("__node-sys__", []).append((now, rest or (0.0, 0.0)))
    return found


def _rounds(vector: Input) -> Iterator[tuple[float, Amounts | None, Mapping[str, Amounts]]]:
    for one in vector["rounds"]:
        node = None if one.get("nodeMetricError") else (float(one["nodeCPU"]), float(one["nodeMemory"]))
        usage = {
            uid: (float(amounts[0]), float(amounts[1]))
            for uid, amounts in (one.get("podUsage") or {}).items()
            if amounts is not None
        }
        yield float(one["atUnix"]), node, usage


def _total(amounts: Sequence[Amounts | None]) -> Amounts | None:
    known = [one for one in amounts if one is not None]
    return (sum(cpu for cpu, _ in known), sum(memory for _, memory in known)) if len(known) == len(amounts) else None


def _rest(node: Amounts | None, pods: Amounts | None) -> Amounts | None:
    return None if node is None or pods is None else (max(node[0] - pods[0], 0.0), max(node[1] - pods[1], 0.0))


def _is_steady(samples: Samples) -> bool:
    """Whether observed time and the clock's time are the same for them."""
    return all(0 < later - sooner <= 2 * _INTERVAL for (sooner, _), (later, _) in itertools.pairwise(samples))


def _percentiles(samples: Samples) -> dict[str, dict[str, str]]:
    """Percentiles of histograms that decay on observed time."""
    found: dict[str, dict[str, str]] = {name: {} for name in _SHARES}
    for place, (metric, buckets, half_life, units) in enumerate(_RESOURCES):
        histogram, observed, last = Histogram.new(buckets, half_life), 0.0, -math.inf
        for now, amounts in samples:
            gap = now - last
            observed += gap if 0 < gap <= 2 * _INTERVAL else _INTERVAL
            last = now
            histogram.add(amounts[place], 1.0, observed)
        for name, share in _SHARES.items():
            amount = int(histogram.percentile(share) * units)
            found[name][metric] = f"{amount}m" if units > 1 else str(amount)
    return found


RULES: Final[tuple[Rule, ...]] = (
    OutOfScope(
        "peak_predictor",
        ("model_gc", "checkpoint_schedule", "checkpoint_restore", "checkpoint_file", "uid_generator"),
        INTERNALS,
    ),
    Deviation(
        "peak_predictor",
        ("prod_reclaimable", "pod_reclaimable", "pod_peak", "priority_reclaimable"),
        "what the annotation raw-allocatable does not name stays as the node states it, and is not sold out",
        ours=_with_whole_annotation,
        when=_raw_is_partial,
    ),
    Deviation(
        "peak_predictor",
        ("training",),
        "what was not measured is no sample, decay runs on observed time, and pods without a class count as Prod",
        ours=_trained,
    ),
)
"""Its rules, those about scope first."""
