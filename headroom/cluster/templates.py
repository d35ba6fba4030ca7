"""The templates of pods that run once, such as those of workflows. Labels and annotations name them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

_LASTING: Final = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Node"})
"""Kinds of controllers that outlive their pods: no label replaces them."""
_LONGEST: Final = 253  # a longer value names no template [characters]
_SPARK_RUN: Final = re.compile(r"-[0-9]{19}$")  # a ScheduledSparkApplication's run, in nanoseconds
_ARGO_STEP: Final = re.compile(r"-(?P<template>.+)-[0-9]{4,10}")  # behind the workflow's name, with a hash of the node


@dataclass(frozen=True, slots=True)
class Template:
    """The labels or annotations of a pod that name its template."""

    kind: str  # the kind of the workload
    keys: tuple[str, ...]  # together they name the template; a pod without one of them has another template
    parts: tuple[str, ...] = ()  # they name a part of it, such as a step, on pods that have them
    run: str = ""  # the name of the run; a template of this name is defined in the run and is used once


TEMPLATES: Final = (
    Template("CronWorkflow", ("workflows.argoproj.io/cron-workflow",)),
    Template("WorkflowTemplate", ("workflows.argoproj.io/workflow-template",)),
    Template("ClusterWorkflowTemplate", ("workflows.argoproj.io/cluster-workflow-template",)),
    Template("Pipeline", ("tekton.dev/pipeline",), ("tekton.dev/pipelineTask",), run="tekton.dev/pipelineRun"),
    Template("Task", ("tekton.dev/task",)),
    Template("ClusterTask", ("tekton.dev/clusterTask",)),
    Template(
        "AutoscalingRunnerSet",
        ("actions.github.com/scale-set-name",),
        ("actions.github.com/scale-set-namespace", "app.kubernetes.io/component"),
    ),
    Template("RunnerDeployment", ("runner-deployment-name",)),
    Template("GitLabJob", ("project.runner.gitlab.com/id", "job.runner.gitlab.com/name")),
    Template("JenkinsAgent", ("jenkins/label",)),
    Template("ProwJob", ("prow.k8s.io/job",), ("prow.k8s.io/refs.org", "prow.k8s.io/refs.repo")),
    Template("DAG", ("dag_id", "task_id"), ("kubernetes_executor",)),
    Template("SparkApplication", ("sparkoperator.k8s.io/app-name",), ("spark-role",)),
    Template("ScaledJob", ("scaledjob.keda.sh/name",)),
    Template("JobSet", ("jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name")),
    Template("Experiment", ("katib.kubeflow.org/experiment",), ("training.kubeflow.org/replica-type",)),
)
"""Argo, Tekton, GitHub Actions, GitLab, Jenkins, Prow, Airflow, Spark, KEDA, JobSet, Katib; the first match counts."""


def keys(templates: Iterable[Template] = TEMPLATES) -> tuple[str, ...]:
    """Return the labels and annotations that are read."""
    return tuple(dict.fromkeys(key for row in templates for key in (*row.keys, *row.parts, row.run) if key))


def template(
    pod: Mapping[str, Any], owner: Mapping[str, Any], templates: Sequence[Template] = TEMPLATES
) -> tuple[str, str] | None:
    """Return kind and name of the template that made a pod; None where nothing names one.

    Args:
        pod: the Pod as JSON.
        owner: its controller; empty without one.
        templates: the templates to look for; the first match counts.
    """
    if owner.get("kind") in _LASTING:
        return None
    metadata = pod.get("metadata") or {}
    values = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    for row in templates:
        names = [_name(values.get(key)) for key in row.keys]
        if all(names) and names != [_name(values.get(row.run))]:
            parts = [_name(values.get(key)) for key in row.parts]
            return row.kind, "/".join([*names, *parts]).rstrip("/") + step(metadata, owner)
    return None


def step(metadata: Mapping[str, Any], owner: Mapping[str, Any]) -> str:
    """Return "/" and the step of an Argo Workflow that a pod is, as its name shows it; else nothing."""
    name, workflow = str(metadata.get("name", "")), str(owner.get("name", ""))
    if owner.get("kind") != "Workflow" or not name.startswith(workflow):
        return ""
    match = _ARGO_STEP.fullmatch(name.removeprefix(workflow))
    return f"/{match['template']}" if match else ""


def _name(value: object) -> str:
    """Return a value as a part of a key: without "/", and empty where it is too long to be a name."""
    text = str(value or "")
    return quote(_SPARK_RUN.sub("", text), safe="") if len(text) <= _LONGEST else ""
