"""Each parser of what kernel, Kubernetes and people write gives something sound, or refuses in a line with a name."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import strategies as st

from agent.host import cgroup_files, procfs
from agent.host.cgroup_files import UNLIMITED
from agent.host.cgroup_names import (
    BURSTABLE,
    CGROUPFS,
    SYSTEMD,
    container_id,
    container_name,
    driver_of,
    pod_dir,
    pod_uid,
)
from agent.host.procfs import Malformed
from agent.pods import PodRef, pod_ref
from agent.prediction.policy import in_force, resolve
from agent.predictors import PolicyError
from agent.reporter import spec as specs
from agent.reporter.spec import SpecInForce
from agent.sources.node import read_node
from crds import names, quantity
from crds.codec import CodecError, from_json, to_json
from crds.duration import DurationError, format_duration, parse_duration
from crds.node_metric import NodeMetric
from crds.predict_policy import DEFAULTS, PredictPolicy
from crds.priority import PriorityBand, QoS
from headroom.cluster.cpu_list import count_cpus
from headroom.cluster.typed_pod import typed_pod
from tests.fuzz.inputs import NUMBERS, Json, any_json, damaged, json_texts, kernel_texts, objects
from tests.fuzz.originals import (
    MEMINFO,
    NODE,
    POD,
    PRESSURE,
    SOUND,
    SPEC,
    STAT,
    V1_CPU_STAT,
    V1_MEMORY_STAT,
    V1_USAGE,
    V2_CPU_STAT,
    V2_MEMORY_STAT,
)  # fmt: skip
from tests.fuzz.strength import answer_or_refusal, are_lines, fuzz

LARGEST: Final = 2**64
MOST_BYTES: Final = 2**53  # the store's exact range; one pod beyond it would cost all pods the tick
LONGEST_SECONDS: Final = 10 * 366 * 86400


class Parser(NamedTuple):
    given: st.SearchStrategy[Any]
    parse: Callable[[Any], Any]
    refusal: type[Exception]
    named: str  # must be in a refusal
    sound: Callable[[Any], object]  # whether an answer is; it may assert more


def below(limit: int, *besides: int) -> Callable[[Any], bool]:
    return lambda value: 0 <= value < limit or value in besides


def _memory(found: procfs.MemInfo) -> bool:
    assert 0 <= found.used_with_page_cache_bytes <= found.total_bytes
    return 0 <= found.used_bytes <= found.total_bytes < MOST_BYTES


def _throttling(found: cgroup_files.Throttling) -> bool:
    assert min(found.periods, found.throttled, found.throttled_nanoseconds) >= 0
    return 0.0 <= cgroup_files.throttled_ratio(cgroup_files.Throttling(0, 0, 0), found) < math.inf


def _pod(ref: PodRef) -> None:
    assert all(type(text) is str for text in (ref.uid, ref.namespace, ref.name, ref.priority_label, ref.cgroup_uid))
    assert ref.uid
    assert ref.cgroup_uid
    assert ref.workload is None or isinstance(ref.workload, str)
    assert ref.band in set(PriorityBand) - {PriorityBand.NONE}
    assert ref.qos in set(QoS)
    for amounts in (ref.requests, ref.limits):
        _amounts(amounts)
    assert 0.0 <= ref.created < 1e12
    assert type(ref.terminal) is type(ref.running) is bool


def _amounts(amounts: Mapping[str, int]) -> None:
    assert amounts.keys() <= {"cpu", "memory"}
    assert all(type(amount) is int and 0 <= amount < 2**63 for amount in amounts.values())


def _node(read: Any) -> None:  # noqa: ANN401 - what read_node gives
    resources, problems = read
    for amounts in (resources.allocatable, resources.capacity, resources.reservation):
        _amounts(amounts)
    are_lines(*problems)


def _spec(found: SpecInForce) -> None:
    assert "\n" not in found.problem
    assert 30 <= found.report_interval_seconds <= LONGEST_SECONDS
    assert 60 <= found.window_seconds <= LONGEST_SECONDS
    assert all(0 < seconds <= LONGEST_SECONDS for seconds in found.durations_seconds)
    assert found.memory_policy
    in_force(found.predict_policy, None)


def _policy(parsed: PredictPolicy) -> None:
    result = answer_or_refusal(lambda: resolve(parsed), PolicyError, "predictPolicy")
    assert (in_force(parsed, DEFAULTS).problem == "") == (result is not None)
    if result is not None:
        assert 0.0 <= result.reclaim_ratio <= 1.0
        assert 0.0 <= result.cold_start_seconds <= 2592000
        assert all(1.0 <= model.margin <= 2.0 for model in result.models.values())


def _quantity(given: str | float) -> Fraction:
    parsed, whole = quantity.parse_quantity(given), quantity.value(given)
    assert abs(whole) >= abs(parsed)
    assert abs(quantity.milli_value(given)) >= abs(parsed * 1000)
    assert abs(whole) >= 2**63 or quantity.value(quantity.format_bytes(abs(whole))) == abs(whole)
    return parsed


def _duration(seconds: float) -> None:
    assert math.isfinite(seconds)
    assert parse_duration(format_duration(seconds)) == round(seconds * 1000) / 1000 or abs(seconds) > 2**32


def _again(found: NodeMetric) -> None:
    assert repr(from_json(NodeMetric, to_json(found))) == repr(found)


NAMES: Final = damaged(*SOUND["pod_cgroups"]) | st.text()
IDS: Final = NAMES | damaged("containerd://3e3c1b8f6d2a", "cri-o://3e3c", "docker://../../x")
CPU_TIME: Final = kernel_texts(V1_USAGE, V2_CPU_STAT)
THROTTLING: Final = kernel_texts(V1_CPU_STAT, V2_CPU_STAT)
QUOTAS: Final = kernel_texts("-1\n", "100000\n", "150000 100000\n", "max 100000\n")
MEMORY: Final = kernel_texts(V1_MEMORY_STAT, V2_MEMORY_STAT)
AMOUNTS: Final = st.text() | st.sampled_from(NUMBERS)
DURATIONS: Final = damaged("5m0s", "1h30m", "-1.5h", "100ms", ".5s", "3us", "0") | AMOUNTS
QUANTITIES: Final = (
    damaged("1500m", "9Gi", "1e3", "-2.5k", "100n", ".5Mi", "1E")
    | AMOUNTS
    | st.integers()
    | st.floats()
    | st.booleans()
)
PODS: Final = objects(
    POD,
    {**POD, "spec": {"priority": 2000001000, "containers": [{"name": "etcd"}]}},
    {"metadata": {"name": "a", "uid": "1", "labels": {names.LABEL_QOS: "BE"}}, "spec": {"containers": []}},
)
ANNOTATIONS: Final = st.fixed_dictionaries(
    {},
    optional={
        key: damaged(*NODE["metadata"]["annotations"].values()) | json_texts({"resources": {"cpu": "1"}})
        for key in (names.ANNOTATION_RAW_ALLOCATABLE, names.ANNOTATION_NODE_RESERVATION)
    },
).map(lambda found: {**NODE, "metadata": {"name": "worker", "annotations": found}})
METRIC: Final = {"metadata": {"name": "n"}, "spec": SPEC, "status": {"updateTime": "x", "conditions": []}}
PARSERS: Final = {
    "ticks": Parser(kernel_texts(STAT), procfs.busy_ticks, Malformed, "/proc/stat", below(5 * LARGEST)),
    "ticks of CPUs": Parser(
        kernel_texts(STAT), procfs.busy_ticks_per_cpu, Malformed, "/proc/stat",
        lambda found: all(map(below(5 * LARGEST), found.values())),
    ),
    "CPUs": Parser(kernel_texts(STAT), procfs.cpu_count, Malformed, "/proc/stat", below(LARGEST)),
    "ARC": Parser(
        kernel_texts("name type data\nsize 4 41943040\nc_min 4 8388608\n"), procfs.arc_above_minimum_bytes, Malformed,
        "arcstats", below(LARGEST),
    ),
    "memory": Parser(kernel_texts(MEMINFO), procfs.meminfo, Malformed, "/proc/meminfo", _memory),
    "pressure": Parser(
        kernel_texts(PRESSURE), procfs.pressure_totals, Malformed, "pressure",
        lambda found: found.keys() <= {"some", "full"} and all(map(below(LARGEST), found.values())),
    ),
    **{
        f"{name} v{version}": Parser(given, partial(parse, version=version), Malformed, named, sound)
        for version in (1, 2)
        for name, given, parse, named, sound in (
            ("cpu", CPU_TIME, cgroup_files.cpu_usage_nanoseconds, "cpu", below(1000 * LARGEST)),
            ("throttling", THROTTLING, cgroup_files.throttling, "cpu.stat", _throttling),
            ("memory.stat", MEMORY, cgroup_files.memory_stat, "memory.stat",
             lambda found: 0 <= found.used_bytes <= found.used_with_page_cache_bytes < MOST_BYTES),
            ("quota", QUOTAS, cgroup_files.cpu_quota_microseconds, "cpu", below(LARGEST, UNLIMITED)),
            ("period", QUOTAS, cgroup_files.cpu_period_microseconds, "cpu", below(LARGEST)),
        )
    },
    "memory amount": Parser(
        kernel_texts("12345678\n", "max\n", "9223372036854771712\n"), cgroup_files.memory_bytes, Malformed, "memory",
        below(LARGEST, UNLIMITED),
    ),
    "driver": Parser(
        st.lists(NAMES, max_size=4), driver_of, ValueError, "", lambda one: one in (SYSTEMD, CGROUPFS, None)
    ),
    **{
        f"{name} {driver}": Parser(given, partial(parse, driver=driver), ValueError, "container id", sound)
        for driver in (SYSTEMD, CGROUPFS)
        for name, given, parse, sound in (
            ("uid", NAMES, pod_uid,
             lambda uid, driver=driver: pod_uid(pod_dir(driver, BURSTABLE, uid).split("/")[-1], driver) == uid != ""),
            ("container id", NAMES, container_id, lambda found: found and "/" not in found),
            ("container", IDS, container_name, lambda found: found.strip(".") and "/" not in found),
        )
    },
    "list of CPUs": Parser(
        damaged("0-3,8", "0", "1,2,3", "10-20") | st.text(), count_cpus, ValueError, "list of CPUs",
        lambda count: 1 <= count <= 65536,
    ),
    "quantity": Parser(QUANTITIES, _quantity, quantity.QuantityError, "quantity", math.isfinite),
    "duration": Parser(DURATIONS, parse_duration, DurationError, "duration", _duration),
    "policy": Parser(
        objects(SPEC["predictPolicy"]) | any_json(), partial(from_json, PredictPolicy), CodecError, "", _policy
    ),
    "spec": Parser(objects(SPEC) | st.none(), lambda spec: specs.read(spec, specs.default()), CodecError, "", _spec),
    "NodeMetric": Parser(objects(METRIC), partial(from_json, NodeMetric), CodecError, "", _again),
    "pod": Parser(PODS, lambda pod: pod_ref(typed_pod(pod)), ValueError, "", _pod),
    "Node": Parser(objects(NODE) | ANNOTATIONS, read_node, CodecError, "", _node),
}  # fmt: skip


@pytest.mark.parametrize("name", PARSERS)
@fuzz(data=st.data())
def test_replies_are_valid_and_rejections_name_the_error(name: str, data: st.DataObject) -> None:
    inputs, parse, refusal, named, sound = PARSERS[name]
    value: Json = data.draw(inputs)
    result = answer_or_refusal(lambda: parse(value), refusal, named)
    assert result is None or sound(result) in (True, None), result
