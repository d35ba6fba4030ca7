"""Rules for `cgroup_parse.json`."""

from collections.abc import Callable
from typing import Any, Final

from tests.golden.rules.rule import Deviation, Input, OutOfScope, Rule

_UNUSED_FILES: Final = ("numa", "cpuset", "blkio", "shares", "weight", "tasks")


def _reads_unused_file(vector: Input) -> bool:
    text = " ".join(str(vector.get(key, "")) for key in ("resource", "file", "field")).lower()
    return any(name in text for name in _UNUSED_FILES)


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
        ("read", "parse", "pod_cgroup_file", "container_cgroup_file"),
        "files that we do not read",
        when=_reads_unused_file,
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
