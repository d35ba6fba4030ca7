"""What is out of scope, and where we answer differently on purpose: rules over a vector's input, never over its name.

Each rule has a reason. A deviation also says what we answer instead; the runner asserts exactly that.
"""

import json
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.golden.adapters import FAMILIES, Adapter

Input = Mapping[str, Any]


def always(_input: Input) -> bool:
    """Every input of the operation."""
    return True


@dataclass(frozen=True, slots=True)
class OutOfScope:
    """Vectors that are counted apart: nothing of ours is meant to answer them."""

    family: str
    """Vector file without its ending."""
    operations: tuple[str, ...]
    """The operations that the rule is about."""
    reason: str
    """Why we leave it out."""
    when: Callable[[Input], bool] = always
    """Which of their inputs."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """Vectors that we answer differently on purpose."""

    family: str
    """Vector file without its ending."""
    operations: tuple[str, ...]
    """The operations that the rule is about."""
    reason: str
    """Why we differ."""
    ours: Callable[[Input, Any], Any]
    """(input, what the peer answers) -> what we answer instead."""
    when: Callable[[Input], bool] = always
    """Which of their inputs."""


_INTERNALS: Final = "internals of the peer"
_UNUSED_FILES: Final = ("numa", "cpuset", "blkio", "shares", "weight", "tasks")


def _reads_unused_file(vector: Input) -> bool:
    text = " ".join(str(vector.get(key, "")) for key in ("resource", "file", "field")).lower()
    return any(name in text for name in _UNUSED_FILES)


def _counts_hot_pages(vector: Input) -> bool:
    policy = vector.get("memoryCollectPolicy")
    collect = (vector.get("nodeMetricSpec") or {}).get("metricCollectPolicy") or {}
    return "usageWithHotPageCache" in (policy, collect.get("nodeMemoryCollectPolicy"))


OUT_OF_SCOPE: Final = (
    OutOfScope(
        "peak_predictor",
        ("model_gc", "checkpoint_schedule", "checkpoint_restore", "checkpoint_file", "uid_generator"),
        _INTERNALS,
    ),
    OutOfScope(
        "mid_resource",
        (
            "calculate_node_resource",
            "update_node_resource",
            "min_resource_list",
            "resource_list_equal_ignore_zero",
            "is_resource_diff",
            "mask_cpu_memory",
            "reconcile_noderesource",
            "nodemetric_event",
        ),
        _INTERNALS,
    ),
    OutOfScope("mid_resource", ("node_safety_margin",), "the Batch tier is left out"),
    OutOfScope(
        "mid_resource",
        ("pod_numa_request_and_usage", "add_zone_resource_list", "pod_unknown_numa_usage", "divide_resource_list"),
        "NUMA is left out",
    ),
    OutOfScope(
        "colocation_config",
        (
            "webhook_cfg_not_empty_and_changed",
            "webhook_create_profile_checker",
            "webhook_checker_init",
            "configmap_event",
            "is_config_available",
            "is_node_cfg_valid",
        ),
        _INTERNALS,
    ),
    OutOfScope("nodemetric_policy", ("node_event", "reconcile_nodemetric", "init_nodemetric"), _INTERNALS),
    OutOfScope("nodemetric_policy", ("agent_query_window",), "hot page accounting is left out", when=_counts_hot_pages),
    OutOfScope("nodemetric_report", ("collect_host_app",), "host applications are left out"),
    OutOfScope(
        "nodemetric_report",
        ("collect_numa", "system_numa_usage", "numa_memory", "numa_cpu"),
        "NUMA is left out",
    ),
    OutOfScope("nodemetric_report", ("collect_node_gpu",), "GPUs are left out"),
    OutOfScope("nodemetric_report", ("pod_filter", "sync"), _INTERNALS),
    OutOfScope(
        "nodemetric_report",
        ("collect_node", "collect_pod"),
        "hot page accounting is left out",
        when=_counts_hot_pages,
    ),
    OutOfScope(
        "cgroup_parse",
        (
            "milli_cpu_to_quota",
            "milli_cpu_to_shares",
            "cpu_weight_to_shares",
            "cpu_shares_to_weight",
            "qos_cpuset_dir",
            "select_formatter",
            "kube_qos_from_cgroup_parent",
        ),
        "we read cgroups and never write them",
    ),
    OutOfScope(
        "cgroup_parse",
        ("read", "parse", "pod_cgroup_file", "container_cgroup_file"),
        "files that we do not read",
        when=_reads_unused_file,
    ),
    OutOfScope(
        "trimaran_args",
        ("defaults", "decode_plugin_config", "encode_plugin_args"),
        "plugins that are left out",
        when=lambda vector: any(
            name in str(vector.get("kind", vector.get("plugin", "")))
            for name in ("TargetLoadPacking", "LoadVariationRiskBalancing")
        ),
    ),
    OutOfScope("trimaran_args", ("encode_plugin_args", "scheduled_pod_cache_cleanup"), _INTERNALS),
    OutOfScope("load_watcher", ("datadog_response", "datadog_request"), "the Datadog provider is left out"),
)
"""What is counted apart."""


def _is_no_sample_list(vector: Input) -> bool:
    values = vector.get("values")
    return not isinstance(values, list) or not values or not all(isinstance(value, int | float) for value in values)


def _without(*names: str) -> Callable[[Input, Any], Any]:
    """What the peer answers, less some parts of its value."""

    def ours(_input: Input, theirs: Any) -> Any:  # noqa: ANN401
        value = theirs["value"]
        return {**theirs, "value": value and {name: part for name, part in value.items() if name not in names}}

    return ours


_NO_LIMIT: Final = 0x7FFFFFFFFFFFF000
_MEMORY_KEYS: Final = frozenset({"inactive_anon", "active_anon", "unevictable", "inactive_file", "active_file"})


def _uses_more_than_there_is(vector: Input) -> bool:
    return any(text.isdigit() and int(text) >= _NO_LIMIT for text in vector.get("files", {}).values())


def _has_what_we_add_up(vector: Input) -> bool:
    return vector.get("cgroupVersion") == 2 and set(vector["content"].split()) >= _MEMORY_KEYS


_FACTORS: Final = "scheduling.koordinator.sh/load-estimated-scaling-factors"


def _negative(amount: object) -> bool:
    return isinstance(amount, int) and amount < 0


def _arguments_we_check(vector: Input) -> bool:
    arguments = vector.get("args") or {}
    thresholds = (arguments.get("prodUsageThresholds") or {}).values()
    seconds = ("estimatedSecondsAfterPodScheduled", "estimatedSecondsAfterInitialized")
    return any(not 0 <= percent <= 100 for percent in thresholds) or any(
        _negative(arguments.get(name)) for name in seconds
    )


def _renamed_field(_input: Input, theirs: Any) -> Any:  # noqa: ANN401
    names = {"nodeMetricExpiredSeconds": "nodeMetricExpirationSeconds"}
    return {
        **theirs,
        "errors": [{**error, "field": names.get(error["field"], error["field"])} for error in theirs["errors"]],
    }


def _annotated_factors(vector: Input) -> dict[str, Any]:
    text = (vector["pod"]["metadata"].get("annotations") or {}).get(_FACTORS, "{}")
    try:
        factors = json.loads(text)
    except ValueError:
        return {}
    return factors if isinstance(factors, dict) else {}


def _without_negative_factors(vector: Input, _theirs: Any) -> Any:  # noqa: ANN401
    """What we answer to the same pod without its negative factors."""
    adapter: Adapter = pkgutil.resolve_name(FAMILIES["loadaware_estimator"])["estimatePod"]
    kept = {name: factor for name, factor in _annotated_factors(vector).items() if not _negative(factor)}
    metadata = vector["pod"]["metadata"]
    annotations = {**metadata["annotations"], _FACTORS: json.dumps(kept)}
    return adapter({**vector, "pod": {**vector["pod"], "metadata": {**metadata, "annotations": annotations}}})


def _steps(steps: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for step in steps:
        yield step
        yield from _steps(step.get("other") or ())


def _refused_by_us(vector: Input) -> bool:
    """Whether a step adds a negative weight or merges other buckets, which makes the peer panic."""
    steps = list(_steps(vector["steps"]))
    return any(step.get("weight", 0) < 0 for step in steps) or any(
        step.get("otherOptions", vector["options"]) != vector["options"] for step in steps
    )


DEVIATIONS: Final = (
    Deviation(
        "histogram",
        ("sequence",),
        "where the peer panics we refuse with an error",
        ours=lambda _input, _theirs: {"error": True},
        when=_refused_by_us,
    ),
    Deviation(
        "loadaware_args",
        ("validate",),
        "our field names are the JSON names",
        ours=_renamed_field,
        when=lambda vector: (vector.get("args") or {}).get("nodeMetricExpirationSeconds") is not None,
    ),
    Deviation(
        "loadaware_args",
        ("validate",),
        "prodUsageThresholds and the two estimated seconds are validated, too",
        ours=lambda _input, _theirs: {"valid": False},
        when=_arguments_we_check,
    ),
    Deviation(
        "loadaware_estimator",
        ("estimatePod",),
        "negative annotation factors are ignored",
        ours=_without_negative_factors,
        when=lambda vector: any(_negative(factor) for factor in _annotated_factors(vector).values()),
    ),
    Deviation(
        "cgroup_parse",
        ("read",),
        "of memory.stat we read only what we add up",
        ours=_without("cache", "rss"),
        when=lambda vector: vector.get("resource") == "memoryStat",
    ),
    Deviation(
        "cgroup_parse",
        ("parse",),
        "of memory.stat we need only what we add up",
        ours=lambda _input, _theirs: {"error": False},
        when=lambda vector: vector.get("file") == "memory.stat" and _has_what_we_add_up(vector),
    ),
    Deviation(
        "cgroup_parse",
        ("read",),
        "an amount that the kernel writes for no limit is no usage, wherever it stands",
        ours=lambda _input, _theirs: {"error": False, "value": -1},
        when=lambda vector: vector.get("resource") == "memoryUsageBytes" and _uses_more_than_there_is(vector),
    ),
    Deviation(
        "cgroup_parse",
        ("meminfo",),
        "NUMA is left out",
        ours=_without("numaUsageBytes"),
    ),
    Deviation(
        "nodemetric_report",
        ("percentile",),
        "an error carries no value: a 0 could be taken for a measurement",
        ours=lambda _input, _theirs: {"error": True},
        when=_is_no_sample_list,
    ),
)
"""Where we differ on purpose."""
