from typing import Any

import pytest

from headroom.cluster.pod import workload, workload_key
from headroom.cluster.templates import TEMPLATES, Template, keys
from headroom.cluster.typed_pod import MOST_CONTAINERS, typed_pod

ARGO = "workflows.argoproj.io/"
TEKTON = "tekton.dev/"
ARC = {"actions.github.com/scale-set-name": "linux", "actions.github.com/scale-set-namespace": "arc"}
GITLAB = {"project.runner.gitlab.com/id": "7", "job.runner.gitlab.com/name": "test 1/3: [x64]"}
SPARK = {"sparkoperator.k8s.io/app-name": "etl-1605592986890316782", "spark-role": "executor"}
AIRFLOW = {"dag_id": "etl", "task_id": "load", "run_id": "manual-1"}
PROW = {"prow.k8s.io/job": "pull-unit", "prow.k8s.io/refs.org": "k8s", "prow.k8s.io/refs.repo": "infra"}
JOBSET = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": "workers"}


def _pod(
    owner: str = "", labels: dict[str, str] | None = None, name: str = "p-1", namespace: str = "ci", **more: object
) -> dict[str, Any]:
    kind, _, title = owner.partition(" ")
    owners = [{"kind": kind, "name": title, "controller": True}] if owner else []
    return {
        "metadata": {"namespace": namespace, "name": name, "labels": labels or {}, "ownerReferences": owners, **more}
    }


@pytest.mark.parametrize(
    ("pod", "key"),
    [
        (_pod("Workflow build-x7k2p", {f"{ARGO}workflow-template": "build"}), "ci/WorkflowTemplate/build"),
        (_pod("Workflow b-x", {f"{ARGO}cluster-workflow-template": "b"}), "ci/ClusterWorkflowTemplate/b"),
        (
            _pod("Workflow n-1609779960", {f"{ARGO}cron-workflow": "n", f"{ARGO}workflow-template": "x"}),
            "ci/CronWorkflow/n",
        ),
        (_pod("Workflow n-1609779960"), "ci/CronWorkflow/n"),  # Argo labels its pods only where podMetadata does
        (_pod("Workflow n-1609779960", name="n-1609779960-dump-1646182790"), "ci/CronWorkflow/n/dump"),
        (
            _pod("Workflow b-x7k2p", {f"{ARGO}workflow-template": "b"}, name="b-x7k2p-go-test-1646182790"),
            "ci/WorkflowTemplate/b/go-test",
        ),
        (_pod("Workflow build-x7k2p"), "ci/Workflow/build-x7k2p"),
        (
            _pod("TaskRun r-lint", {f"{TEKTON}pipeline": "app", f"{TEKTON}pipelineTask": "lint"}),
            "ci/Pipeline/app/lint",
        ),
        (
            _pod("TaskRun r-1", {f"{TEKTON}pipeline": "r", f"{TEKTON}pipelineRun": "r", f"{TEKTON}task": "lint"}),
            "ci/Task/lint",  # a pipeline that is defined in its run is named as the run
        ),
        (_pod("TaskRun r-1", {f"{TEKTON}clusterTask": "s2i"}), "ci/ClusterTask/s2i"),
        (_pod("TaskRun r-1"), "ci/TaskRun/r-1"),
        (_pod("EphemeralRunner linux-abcde-runner-x", ARC), "ci/AutoscalingRunnerSet/linux/arc"),
        (_pod("Runner r-1", {"runner-deployment-name": "r"}), "ci/RunnerDeployment/r"),
        (_pod("", annotations=GITLAB), "ci/GitLabJob/7/test%201%2F3%3A%20%5Bx64%5D"),
        (_pod("", {"jenkins/label": "maven"}), "ci/JenkinsAgent/maven"),
        (_pod("", PROW), "ci/ProwJob/pull-unit/k8s/infra"),
        (_pod("", {"prow.k8s.io/job": "cut"}, annotations={"prow.k8s.io/job": "cut-not"}), "ci/ProwJob/cut-not"),
        (_pod("", AIRFLOW), "ci/DAG/etl/load"),
        (_pod("", {**AIRFLOW, "kubernetes_executor": "True"}), "ci/DAG/etl/load/True"),
        (_pod("", {"dag_id": "etl"}), None),
        (_pod("Pod etl-driver", SPARK), "ci/SparkApplication/etl/executor"),
        (_pod("Job w-x7k2p", {"scaledjob.keda.sh/name": "w"}), "ci/ScaledJob/w"),
        (_pod("Job train-workers-0", JOBSET), "ci/JobSet/train/workers"),
        (_pod("Job t-1", {"katib.kubeflow.org/experiment": "tune"}), "ci/Experiment/tune"),
        (_pod("Job backup-29384756"), "ci/CronJob/backup"),
        (_pod("Job backup"), "ci/Job/backup"),  # another template than the CronJob's
        # An owner that outlives its pods stays the workload, whatever the labels.
        (_pod("StatefulSet agent", {"jenkins/label": "maven"}), "ci/StatefulSet/agent"),
        (_pod("ReplicaSet web-7f9", {"pod-template-hash": "7f9", "dag_id": "a", "task_id": "b"}), "ci/ReplicaSet/web"),
        # Values that cannot be names.
        (_pod("Job j", {"scaledjob.keda.sh/name": "x" * 10_000}), "ci/Job/j"),
        (_pod("Job j", {"scaledjob.keda.sh/name": ""}), "ci/Job/j"),
    ],
)
def test_workload_of_a_run(pod: dict[str, Any], key: str | None) -> None:
    """The workload of a pod that runs once is its template, which the next run has, too."""
    assert workload_key(pod) == key


def test_templates_stay_apart() -> None:
    """Another namespace, kind, template or part of it is another workload, and no value can imitate two."""
    label = f"{ARGO}workflow-template"
    pods = [
        _pod("Workflow a", {label: "build"}),
        _pod("Workflow a", {label: "build"}, namespace="shop"),
        _pod("Workflow a", {label: "test"}),
        _pod("Workflow a", {f"{ARGO}cron-workflow": "build"}),
        _pod("Task a", {f"{TEKTON}pipeline": "build", f"{TEKTON}pipelineTask": "x"}),
        _pod("Task a", {f"{TEKTON}pipeline": "build/x"}),
        _pod("", {"prow.k8s.io/job": "build", "prow.k8s.io/refs.org": "x"}),
        _pod("", {"prow.k8s.io/job": "build", "prow.k8s.io/refs.repo": "x"}),
        _pod("Workflow build"),
    ]
    assert len({workload_key(pod) for pod in pods}) == len(pods)


def test_own_labels_come_first() -> None:
    templates = (Template("ci.example.com/pipeline", ("ci.example.com/pipeline", "step")), *TEMPLATES)
    labels = {"ci.example.com/pipeline": "app", "step": "lint", **ARC}
    assert workload_key(_pod("Job j", labels), templates) == "ci/ci.example.com/pipeline/app/lint"
    assert workload_key(_pod("Job j", ARC), templates) == "ci/AutoscalingRunnerSet/linux/arc"


def test_templates_are_shown() -> None:
    assert workload(_pod("Job backup-29384756")) == ("CronJob", "backup")
    assert workload(_pod("", AIRFLOW)) == ("DAG", "etl/load")


@pytest.mark.parametrize("containers", [1, MOST_CONTAINERS + 1])
def test_decoder_keeps_the_names(containers: int) -> None:
    """A pod keeps what names its template, also one that is too large to be read as a whole."""
    values = dict.fromkeys(keys(), "x")
    pod = _pod("", values, annotations=values, uid="u")
    decoded = typed_pod({**pod, "spec": {"nodeName": "n", "containers": [{}] * containers}})
    assert decoded["metadata"]["labels"] == decoded["metadata"]["annotations"] == values
