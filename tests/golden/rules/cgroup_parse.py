"""Rules for `cgroup_parse.json`."""

import re
from collections.abc import Callable
from typing import Any, Final

from agent.host.cgroup_files import FILES
from tests.golden.rules.rule import Deviation, Input, OutOfScope, Rule

_UNUSED_FILES: Final = ("numa", "cpuset", "blkio", "shares", "weight", "tasks", "procs", "cold", "idle", "wmark")
_USED_FILES: Final = frozenset(places[1][1] for places in FILES.values())


def _reads_unused_file(vector: Input) -> bool:
    text = " ".join(str(vector.get(key, "")) for key in ("resource", "file", "field")).lower()
    return any(name in text for name in _UNUSED_FILES)


def _names_unused_file(vector: Input) -> bool:
    return vector.get("resource") not in _USED_FILES


def _without(*names: str) -> Callable[[Input, Any], Any]:
    """What the peer answers, less some parts of its value."""

    def ours(_input: Input, theirs: Any) -> Any:  # noqa: ANN401
        value = theirs["value"]
        return {**theirs, "value": value and {name: part for name, part in value.items() if name not in names}}

    return ours


_NO_LIMIT: Final = 0x7FFFFFFFFFFFF000
_MEMORY_KEYS: Final = ("inactive_anon", "active_anon", "unevictable", "inactive_file", "active_file")
_COUNTER_KEYS: Final = frozenset({"usage_usec", "nr_periods", "nr_throttled", "throttled_usec"})
_LISTED: Final = re.compile(r"(\s*\S+ \d+\s*(\n|$))+", re.ASCII)


def _uses_more_than_there_is(vector: Input) -> bool:
    return any(text.isdigit() and int(text) >= _NO_LIMIT for text in vector.get("files", {}).values())


def _about_memory(vector: Input) -> bool:
    return vector.get("resource") == "memoryStat" or vector.get("file") == "memory.stat"


def _texts(vector: Input) -> list[str]:
    return [vector["content"] or ""] if "content" in vector else list(vector.get("files", {}).values())


def _has_what_we_add_up(vector: Input) -> bool:
    """Whether a memory.stat says all that we need, and nothing that no kernel writes."""
    prefix = "total_" if vector.get("cgroupVersion") == 1 else ""
    needed = {prefix + name for name in _MEMORY_KEYS}
    return any(set(text.split()) >= needed and _LISTED.fullmatch(text) for text in _texts(vector))


def _lacks_what_we_ignore(vector: Input) -> bool:
    prefix, names = ("total_", ("cache", "rss")) if vector.get("cgroupVersion") == 1 else ("", ("file", "anon"))
    words, ignored = set(" ".join(_texts(vector)).split()), {prefix + name for name in names}
    return _about_memory(vector) and _has_what_we_add_up(vector) and not words >= ignored


def _is_no_list(vector: Input) -> bool:
    texts = _texts(vector)
    return _about_memory(vector) and bool(texts) and not any(_LISTED.fullmatch(text) for text in texts)


def _lacks_times_we_ignore(vector: Input) -> bool:
    words = set((vector.get("content") or "").split())
    everything = (vector.get("file"), vector.get("field")) == ("cpu.stat", "all")
    return everything and words >= _COUNTER_KEYS and not words >= {"user_usec", "system_usec"}


def _says_nothing_of_time(vector: Input) -> bool:
    before = vector.get("previousTicks", vector.get("previousUsageNanoseconds"))
    now = vector.get("currentTicks", vector.get("currentUsageNanoseconds"))
    return bool(now < before or vector["elapsedMilliseconds"] <= 0)


RULES: Final[tuple[Rule, ...]] = (
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
        ("read", "parse"),
        "files that we do not read",
        when=_reads_unused_file,
    ),
    OutOfScope(
        "cgroup_parse",
        ("pod_cgroup_file", "container_cgroup_file"),
        "files that we do not read",
        when=_names_unused_file,
    ),
    OutOfScope("cgroup_parse", ("meminfo",), "NUMA is left out", when=lambda vector: bool(vector.get("isNUMA"))),
    Deviation(
        "cgroup_parse",
        ("read", "parse"),
        "of memory.stat we need only what we add up",
        ours=lambda _input, _theirs: {"error": False},
        when=_lacks_what_we_ignore,
    ),
    Deviation(
        "cgroup_parse",
        ("read", "parse"),
        "a memory.stat with a line that is no name and number is another file",
        ours=lambda _input, _theirs: {"error": True, "value": None},
        when=_is_no_list,
    ),
    Deviation(
        "cgroup_parse",
        ("read", "parse"),
        "of memory.stat we read only what we add up",
        ours=_without("cache", "rss"),
        when=_about_memory,
    ),
    Deviation(
        "cgroup_parse",
        ("node_cpu_usage", "pod_cpu_usage"),
        "a counter that fell, and no time at all, are a gap: no rate",
        ours=lambda _input, _theirs: {"cores": None},
        when=_says_nothing_of_time,
    ),
    Deviation(
        "cgroup_parse",
        ("parse",),
        "of cpu.stat we need only what we use",
        ours=lambda _input, _theirs: {"error": False},
        when=_lacks_times_we_ignore,
    ),
    Deviation(
        "cgroup_parse",
        ("parse_pod_id",),
        "the uid is the one that the API server has, with its dashes",
        ours=lambda _input, theirs: {**theirs, "id": theirs["id"] and theirs["id"].replace("_", "-")},
        when=lambda vector: vector["driver"] == "systemd" and "_" in vector["basename"],
    ),
    Deviation(
        "cgroup_parse",
        ("parse_container_id",),
        "a monitor is no container",
        ours=lambda _input, _theirs: {"error": True, "id": None},
        when=lambda vector: "conmon-" in vector["basename"],
    ),
    Deviation(
        "cgroup_parse",
        ("parse_container_id",),
        "a scope of pouch is a container, too",
        ours=lambda vector, _theirs: {"error": False, "id": vector["basename"][len("pouch-") : -len(".scope")]},
        when=lambda vector: vector["driver"] == "systemd" and vector["basename"].startswith("pouch-"),
    ),
    Deviation(
        "cgroup_parse",
        ("parse_container_id",),
        "the prefix that cri-o puts before an id is no part of it",
        ours=lambda vector, _theirs: {"error": False, "id": vector["basename"].removeprefix("crio-")},
        when=lambda vector: vector["driver"] == "cgroupfs" and vector["basename"].startswith("crio-"),
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
        ("read",),
        "pressure is made of the kernel's totals, exact for any interval, not of its averages over ten seconds",
        ours=lambda _input, theirs: {"error": theirs["error"]},
        when=lambda vector: vector.get("resource") == "psiAvg10",
    ),
    Deviation(
        "cgroup_parse",
        ("parse",),
        "of cpu.stat we read only what we use",
        ours=_without("userUsec", "systemUsec"),
        when=lambda vector: (vector.get("file"), vector.get("field")) == ("cpu.stat", "all"),
    ),
    Deviation(
        "cgroup_parse",
        ("meminfo",),
        "NUMA is left out",
        ours=_without("numaUsageBytes"),
    ),
)
"""Its rules, those about scope first."""
