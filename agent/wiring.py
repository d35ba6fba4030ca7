"""Puts the parts of an agent together: settings in, parts out. Nothing runs yet."""

import contextlib
import logging
import os
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from agent.collectors.base import Machine, resolve
from agent.host.cgroup import CgroupTree, Layout, NoCgroups, detect
from agent.metrics import Metrics
from agent.pipeline import Pipeline
from agent.reporter.conditions import store_problem
from agent.reporter.reporter import NodeSource, ReportBuilder
from agent.settings import AgentSettings
from agent.sources.node import ApiNode, MachineNode
from agent.sources.pod import ApiPods, CgroupPods, ListedAndCgroupPods, PodSource
from agent.store_failover import StoreFailover
from agent.training import CheckpointedTrainer
from agent.tsdb import checkpoints
from agent.tsdb.schema import StoreNewer
from agent.tsdb.tsdb import Tsdb
from headroom import kube
from headroom.cluster.templates import TEMPLATES

log = logging.getLogger(__name__)

_LONGEST_SECONDS = 30.0
_LONGEST_INTERVALS = 3.0


class CannotStart(Exception):  # noqa: N818 - users see only the message
    """The agent cannot run here; one line with the cause and the way out."""


@dataclass(frozen=True, slots=True)
class AgentComponents:
    """The parts of a running agent."""

    pipeline: Pipeline  # what a tick does
    pods: PodSource  # the pods on this node
    node: NodeSource  # the resources of the node
    report_builder: ReportBuilder  # builds the reports
    metrics: Metrics  # the agent's own metrics
    cgroups: CgroupTree  # where pods are measured


def build(settings: AgentSettings, api: kube.ApiServer | None) -> AgentComponents:
    """Put the parts together. Raises CannotStart: the machine cannot be read, or the database is a newer version's."""
    _allow_many_files()
    cgroups = CgroupTree(_layout(settings))
    with contextlib.suppress(OSError):  # the collectors log it, every tick, until it exists
        cgroups.locate()
    _log_layout(settings, cgroups)
    metrics = Metrics(settings.node_name)
    metrics.detected.source = lambda: cgroups.detected
    node = MachineNode(settings.collect.paths) if api is None else ApiNode(api, settings.node_name)
    listed = _pod_source(settings, api, cgroups)
    for source in (node, listed):
        if isinstance(source, ApiNode | ApiPods):
            source.on_rejected = lambda what: metrics.refused_inputs.labels(what).inc()
    pods = listed if isinstance(listed, CgroupPods) else ListedAndCgroupPods(listed, cgroups)
    longest = max(_LONGEST_SECONDS, _LONGEST_INTERVALS * settings.collect.interval_seconds)
    per_second = float(os.sysconf("SC_CLK_TCK"))
    machine = Machine(settings.collect.paths, cgroups, time.monotonic, per_second, longest_seconds=longest)
    failover = StoreFailover(
        lambda: Tsdb.open(settings.database, settings.store),
        lambda: Tsdb.in_memory(settings.store),
        lambda: checkpoints.load_read_only(settings.database),
        settings.store.retry_seconds,
    )
    try:
        pipeline = Pipeline(
            resolve(settings.collect.collectors, machine),
            pods,
            failover,
            lambda store: CheckpointedTrainer(store, settings.train, metrics, settings.node_name),
            metrics,
        )
    except StoreNewer as error:
        raise CannotStart(str(error)) from error
    report_builder = ReportBuilder(pipeline, pods, node, metrics, settings.train.predict_policy, cgroups)
    return AgentComponents(pipeline, pods, node, report_builder, metrics, cgroups)


def health_details(
    settings: AgentSettings, components: AgentComponents, report_problem: Callable[[], str]
) -> Mapping[str, Callable[[], str]]:
    """Return the facts of /healthz?verbose: the detected machine and the current state."""
    pipeline, cgroups = components.pipeline, components.cgroups

    def describe_store() -> str:
        size, problem = pipeline.store.size(), store_problem(pipeline.failing)
        unwritten = f", {size.unwritten_ticks} of them only in memory" if size.unwritten_ticks else ""
        return (
            f"{settings.database}, {size.file_bytes / (1 << 20):.1f} MiB on disk, {size.series} series, "
            f"{size.head_ticks} ticks not yet compressed{unwritten}"
            f"{problem and f'. {problem}'}"
        )

    return {
        "node": lambda: settings.node_name,
        "machine": lambda: cgroups.layout.description,
        **{f"detected {name}": partial(lambda name: cgroups.detected[name], name) for name in cgroups.detected},
        "pods known": lambda: str(len(components.pods.pods())),
        "gaps in the last tick": lambda: str(len(pipeline.missing)),
        "failing": lambda: "; ".join(f"{step}: {why}" for step, why in pipeline.failing.items()) or "nothing",
        "reports": lambda: report_problem() or "taken",
        "database": describe_store,
    }


def _pod_source(settings: AgentSettings, api: kube.ApiServer | None, cgroups: CgroupTree) -> PodSource:
    if api is None or settings.collect.pods_from == "cgroups":
        return CgroupPods(cgroups)
    return ApiPods(api, settings.node_name, templates=(*settings.train.workload_labels, *TEMPLATES))


def _layout(settings: AgentSettings) -> Layout:
    paths = settings.collect.paths
    try:
        (paths.proc / "stat").read_bytes()
    except OSError as error:
        raise CannotStart(f"cannot read {paths.proc / 'stat'}: {error.strerror}; give the right --host-root") from error
    try:
        return detect(paths.cgroup)
    except NoCgroups as error:
        raise CannotStart(str(error)) from error


def _log_layout(settings: AgentSettings, cgroups: CgroupTree) -> None:
    result = ", ".join(f"{top.path} ({top.driver} driver)" for top in cgroups.kubepods) or "no kubepods folder yet"
    log.info("node %s: %s; %s", settings.node_name, cgroups.layout.description, result)
    if cgroups.layout.memory is None:
        log.warning("the kernel has no memory controller: pods' memory cannot be measured, and no Mid can be published")


def _allow_many_files() -> None:
    """Raise the limit of open files: the agent holds a few files open per pod."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
