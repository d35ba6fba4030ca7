"""Measure a recorded machine as the agent would: one set of numbers for each interval between two instants."""

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agent import derived
from agent.capture import recording
from agent.capture.recording import Instant, NotARecording, RecordedMachine
from agent.collectors.base import Collector, Machine, Tick, resolve
from agent.host.cgroup import CgroupTree, Layout, NoCgroups, detect
from agent.samples import CPU, CPU_THROTTLED, MEMORY, MEMORY_WITH_PAGE_CACHE, NODE, REASONS, SYS, CollectionResult
from headroom.runtime.options import Parser

SYSTEM: Final = "system"
_NAMES: Final = {SYS: SYSTEM}
_COLLECTORS: Final = ("node", "pod")
_LONG_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Interval:
    """The measurements between two instants."""

    name: str  # the two, as in t000-t001
    values: Mapping[str, Mapping[str, float]]  # amounts by entity and metric. [cores, bytes, ratio]
    gaps: Sequence[tuple[str, str, str]]  # missing values: entity, metric, reason


@dataclass(slots=True)
class Replay:
    """The result of a replay."""

    intervals: list[Interval] = field(default_factory=list)  # one for each two consecutive instants
    cgroup_version: int = 0  # 1 or 2: where CPU time was found
    driver: str | None = None  # systemd or cgroupfs; None when there is no folder for pods
    description: str = ""  # the hierarchies, for people
    problems: list[str] = field(default_factory=list)  # what could not be used, a sentence each


def replay(path: Path) -> Replay:
    """Drive a recording, a folder or a tar file, through the collectors.

    Raises NotARecording: no recording, fewer than two instants, or no space for a temporary link.
    """
    with RecordedMachine.open(path) as (recorded, folder):
        try:
            return _replay(recorded, folder)
        except NotARecording as error:
            raise NotARecording(str(error).replace(str(folder), str(path))) from None


def _replay(recorded: RecordedMachine, folder: Path) -> Replay:
    instants, problems = recording.find(folder)
    result = Replay(problems=problems)
    tree = CgroupTree(_layout(recorded, instants))
    recorded.layout = tree.layout
    machine = Machine(
        paths=recorded.paths,
        cgroups=tree,
        clock=lambda: recorded.shown * _LONG_SECONDS,
        ticks_per_second=instants[0].ticks_per_second,
        slept=lambda: recorded.slept,
        longest_seconds=math.inf,
        open_file=recorded.file,
    )
    collectors = resolve(_COLLECTORS, machine)
    before = None
    for instant in instants:
        recorded.show(instant)
        collected = _collect(collectors, instant, result.problems)
        result.driver = tree.driver or result.driver
        if before is not None:
            result.intervals.append(_interval(f"{before.name}-{instant.name}", collected))
        before = instant
    result.cgroup_version, result.description = tree.layout.cpu.version, tree.layout.description
    return result


def _layout(recorded: RecordedMachine, instants: Sequence[Instant]) -> Layout:
    """The hierarchies, of the first instant that has any."""
    problem = ""
    for instant in instants:
        recorded.show(instant)
        try:
            return detect(recorded.paths.cgroup)
        except NoCgroups as error:
            problem = problem or str(error).replace(str(recorded.root), str(instant.folder)).partition(";")[0]
    raise NotARecording(f"no instant can be used: {problem}")


def _collect(collectors: Mapping[str, Collector], instant: Instant, problems: list[str]) -> CollectionResult:
    now = instant.started
    collected = CollectionResult()
    for collector in collectors.values():
        result = collector.collect(Tick(now, ()))
        collected.extend(result)
        if result.problem:
            problems.append(f"{instant.name}: {result.problem.partition('/now')[2] or result.problem}")
    collected.extend(derived.system(collected, now))
    return collected


def _interval(name: str, collected: CollectionResult) -> Interval:
    values: dict[str, dict[str, float]] = {}
    for sample in collected.samples:
        values.setdefault(_NAMES.get(sample.entity, sample.entity), {})[sample.metric] = sample.value
    gaps = sorted((_NAMES.get(gap.entity, gap.entity), gap.metric, str(gap.reason)) for gap in collected.missing)
    return Interval(name, values, gaps)


def as_json(found: Replay) -> dict[str, Any]:
    """The replay as plain data. CPU in milli-cores is a float: the formula's own result, not rounded."""
    return {
        "intervals": {interval.name: _interval_json(interval) for interval in found.intervals},
        "detected": {"cgroup": found.cgroup_version, "driver": found.driver},
    }


def _interval_json(interval: Interval) -> dict[str, Any]:
    amounts = {entity: _amounts(values) for entity, values in sorted(interval.values.items())}
    node, system = amounts.pop(NODE, {}), amounts.pop(SYSTEM, {})
    node.pop("memoryWithPageCacheBytes", None)
    return {
        "node": node,
        "system": system,
        "pods": {entity: result for entity, result in amounts.items() if result},
        "gaps": [{"uid": uid, "metric": metric, "reason": reason} for uid, metric, reason in interval.gaps],
    }


def _amounts(values: Mapping[str, float]) -> dict[str, float | int]:
    """Return the known values alone."""
    result: dict[str, float | int] = {"cpuMilli": values[CPU] * 1000} if CPU in values else {}
    kinds = {MEMORY: "memoryBytes", MEMORY_WITH_PAGE_CACHE: "memoryWithPageCacheBytes"}
    return result | {name: int(values[metric]) for metric, name in kinds.items() if metric in values}


def as_table(found: Replay) -> Iterator[str]:
    """The replay as lines for people."""
    yield f"{found.description}; pods by the {found.driver} driver" if found.driver else f"{found.description}; no pods"
    for interval in found.intervals:
        yield ""
        yield f"{interval.name:<40} {'CPU':>9} {'MEMORY':>11} {'WITH CACHE':>11} {'THROTTLED':>9}"
        entities = [NODE, SYSTEM, *sorted(interval.values.keys() - {NODE, SYSTEM})]
        for entity in entities:
            yield _row(entity, interval.values.get(entity, {}))
        for entity, metric, reason in interval.gaps:
            yield f"  no {metric} of {entity}: {reason}. {REASONS.get(reason, '')}".rstrip()


def _row(entity: str, values: Mapping[str, float]) -> str:
    cpu = f"{values[CPU] * 1000:.1f}m" if CPU in values else "-"
    memory, cached = (
        f"{values[metric] / (1 << 20):.1f}Mi" if metric in values else "-"
        for metric in (MEMORY, MEMORY_WITH_PAGE_CACHE)
    )
    throttled = f"{values[CPU_THROTTLED]:.1%}" if CPU_THROTTLED in values else "-"
    return f"{entity:<40} {cpu:>9} {memory:>11} {cached:>11} {throttled:>9}"


def main(arguments: Sequence[str]) -> int:
    """Replay a recording and print the result.

    Returns 0. Unusable parts are reported on standard error. Raises WrongSetting: the command line is wrong.
    NotARecording: The folder cannot be replayed.
    """
    parser = Parser(prog="headroom-agent replay", description=__doc__, allow_abbrev=False)
    parser.add_argument("recording", metavar="FILE", type=Path, help="a tar file, or a folder with t000, t001 …")
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="table for people (default), or json"
    )
    options = parser.parse_args(arguments)
    result = replay(options.recording)
    for problem in result.problems:
        sys.stderr.write(f"headroom-agent replay: {problem}\n")
    lines = [json.dumps(as_json(result), indent=2)] if options.output == "json" else as_table(result)
    try:
        for line in lines:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
