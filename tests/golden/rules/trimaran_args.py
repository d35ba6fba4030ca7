"""Rules for `trimaran_args.json`."""

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, Final

from tests.golden.rules.rule import INTERNALS, Deviation, Input, OutOfScope, Rule

_PLUGINS: Final = ("LowRiskOverCommitment", "NodeResourcesAllocatable")
_PROVIDERS: Final = ("", "NodeMetric", "KubernetesMetricsServer", "Prometheus", "SignalFx")
_OPERATIONS: Final = ("defaults", "decode_plugin_config", "collector_spec", "new_low_risk_plugin")


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _is_map(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, Mapping) and all(_is(Real)(each) for each in value.values())


def _has(fields: Mapping[str, Callable[[Any], bool]]) -> Callable[[Any], bool]:
    """Whether a value is an object with no other fields than these, each null or of its type."""
    return lambda value: (
        isinstance(value, Mapping)
        and all(name in fields and (given is None or fields[name](given)) for name, given in value.items())
    )


_PROVIDER: Final = _has({"type": _is(str), "address": _is(str), "token": _is(str), "insecureSkipVerify": _is(bool)})
_COMMON: Final = {"watcherAddress": _is(str), "metricProvider": _PROVIDER}
_LOW_RISK: Final = {**_COMMON, "smoothingWindowSize": _is(int), "riskLimitWeights": _is_map}
_OURS: Final = {
    "riskLimitWeight": _is(Real),
    "bestEffortMayFillNode": _is(bool),
    "metricExpirationSeconds": _is(int),
    "nodeMetricAggregatedDuration": _is(str),
    "parity": _is(bool),
}
_RESOURCE: Final = _has({"name": _is(str), "weight": _is(int)})
_ALLOCATABLE: Final = {
    "mode": _is(str),
    "resources": lambda value: isinstance(value, list) and all(map(_RESOURCE, value)),
}


def _plugin(vector: Input) -> str:
    return str(vector.get("kind", vector.get("plugin", _PLUGINS[0]))).removesuffix("Args")


def _arguments(vector: Input) -> Mapping[str, Any]:
    return vector.get("args", vector.get("trimaranSpec")) or {}


def _malformed(vector: Input) -> bool:
    """Whether there is a field that nobody knows, or one of the wrong type."""
    known = _ALLOCATABLE if _plugin(vector) == "NodeResourcesAllocatable" else {**_LOW_RISK, **_OURS}
    return not _has(known)(_arguments(vector))


def _weight_is_bad(weight: float | None) -> bool:
    return weight is not None and not 0 <= weight <= 1


def _bad(vector: Input) -> bool:
    """Whether a value is out of range."""
    arguments = _arguments(vector)
    if _plugin(vector) == "NodeResourcesAllocatable":
        weights = [each.get("weight") or 0 for each in arguments.get("resources") or ()]
        return (arguments.get("mode") or "Least") not in ("Least", "Most") or any(weight <= 0 for weight in weights)
    window = arguments.get("smoothingWindowSize")
    weights = [*(arguments.get("riskLimitWeights") or {}).values(), arguments.get("riskLimitWeight")]
    return (window is not None and window < 1) or any(map(_weight_is_bad, weights)) or _bad_provider(arguments)


def _bad_provider(arguments: Mapping[str, Any]) -> bool:
    provider, watcher = arguments.get("metricProvider") or {}, arguments.get("watcherAddress")
    unknown = not watcher and (provider.get("type") or "") not in _PROVIDERS
    addresses = [address for address in (provider.get("address"), watcher) if address]
    return unknown or not all(address.startswith(("http://", "https://")) for address in addresses)


def _beyond_upstream(vector: Input) -> bool:
    return any(name in _OURS for name in _arguments(vector))


def _no_provider(vector: Input) -> bool:
    arguments = _arguments(vector)
    typed = (arguments.get("metricProvider") or {}).get("type")
    return _plugin(vector) == _PLUGINS[0] and not arguments.get("watcherAddress") and not typed


def _provider_of_ours(vector: Input) -> bool:
    arguments = _arguments(vector)
    typed = (arguments.get("metricProvider") or {}).get("type")
    return not arguments.get("watcherAddress") and typed == "NodeMetric"


def _checks_certificates(vector: Input) -> bool:
    provider = _arguments(vector).get("metricProvider") or {}
    return provider.get("type") == "Prometheus" and provider.get("insecureSkipVerify") is None


def _checked(vector: Input, theirs: Any) -> Any:  # noqa: ANN401
    if vector["op"] not in ("defaults", "decode_plugin_config"):
        return theirs
    return _with_provider(vector, theirs, insecureSkipVerify=False)


def _node_metric(vector: Input, theirs: Any) -> Any:  # noqa: ANN401
    if vector["op"] == "collector_spec":
        return {"error": None}
    return _with_provider(vector, theirs, type="")


def _with_provider(vector: Input, theirs: Any, **fields: Any) -> Any:  # noqa: ANN401
    """Their answer with other fields of the provider, wherever the operation has the arguments."""
    inside = theirs if vector["op"] == "defaults" else theirs["args"]
    ours = {**inside, "metricProvider": {**inside["metricProvider"], **fields}}
    return ours if vector["op"] == "defaults" else {**theirs, "args": ours}


RULES: Final[tuple[Rule, ...]] = (
    OutOfScope(
        "trimaran_args",
        ("defaults", "decode_plugin_config", "encode_plugin_args"),
        "plugins that are left out",
        when=lambda vector: _plugin(vector) not in _PLUGINS,
    ),
    OutOfScope("trimaran_args", ("encode_plugin_args", "scheduled_pod_cache_cleanup"), INTERNALS),
    Deviation(
        "trimaran_args",
        _OPERATIONS,
        "unknown fields and wrong types are refused in our own words",
        ours=lambda _vector, _theirs: {"valid": False},
        when=_malformed,
    ),
    Deviation(
        "trimaran_args",
        _OPERATIONS,
        "bad values are errors, not repaired",
        ours=lambda _vector, _theirs: {"valid": False},
        when=_bad,
    ),
    Deviation(
        "trimaran_args",
        _OPERATIONS,
        "the design text's riskLimitWeight, and arguments of ours, are known",
        ours=lambda _vector, _theirs: {"valid": True, "error": None},
        when=_beyond_upstream,
    ),
    Deviation(
        "trimaran_args",
        _OPERATIONS,
        "the default provider is NodeMetric",
        ours=_node_metric,
        when=_no_provider,
    ),
    Deviation(
        "trimaran_args",
        ("collector_spec",),
        "NodeMetric is a provider, too",
        ours=lambda _vector, _theirs: {"error": None},
        when=_provider_of_ours,
    ),
    Deviation(
        "trimaran_args",
        _OPERATIONS,
        "Prometheus' certificate is checked, too, unless the arguments say otherwise",
        ours=_checked,
        when=_checks_certificates,
    ),
)
"""Its rules, those about scope first."""
