"""The chart with many different values, each rendering validated by a real API server."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from scheduler_plugins.settings import Settings
from tests.charts.rendered import CHART, NAMESPACE, Helm, render
from tools.devcluster import Cluster, CommandError

PEER: Final = "[0].podSelector.matchLabels.app"
PREFERENCE: Final = "nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
MATRIX: Final[dict[str, tuple[str, ...]]] = {
    "defaults": (),
    "nothing but agents": ("manager.enabled=false", "scheduler.enabled=false", "priorityClasses.create=false"),
    "nothing but the manager": ("agent.enabled=false", "scheduler.enabled=false"),
    "nothing but the scheduler": ("agent.enabled=false", "manager.enabled=false"),
    "single replicas, no extras": (
        *("manager.replicas=1", "scheduler.replicas=1", "manager.webhook.enabled=false", "networkPolicy.enabled=false"),
        *("podDisruptionBudgets.enabled=false", "admissionPolicy.enabled=false", "flowSchema.enabled=false"),
        *("rbac.aggregate=false", "colocationConfig=null", "uninstall.hook.enabled=false", "tests.enabled=false"),
    ),
    "closed network": (
        *("networkPolicy.egress.enabled=true", "networkPolicy.egress.apiServers={10.0.0.1/32,fd00::1/128}"),
        *("networkPolicy.webhookFrom={10.0.0.0/8}", f"networkPolicy.metricsFrom{PEER}=prometheus"),
        *("scheduler.watcher.enabled=true", f"networkPolicy.watcherFrom{PEER}=kube-scheduler"),
        "networkPolicy.egress.apiServerPorts={6443}",
        "networkPolicy.egress.schedulerTo[0].ports[0].port=9090",
        f"networkPolicy.egress.schedulerTo[0].to{PEER}=prometheus",
    ),
    "air-gapped registry": (
        *("image.registry=registry.example.com:5000/mirror", f"image.agent.digest=sha256:{'a' * 64}"),
        *("scheduler.image=registry.example.com:5000/mirror/kube-scheduler", "imagePullSecrets[0].name=mine"),
        "imagePullPolicy=Always",
    ),
    "placed by hand": tuple(
        f"{part}.{setting}"
        for part in ("agent", "manager", "scheduler")
        for setting in (
            *("nodeSelector.pool=system", "podLabels.team=platform", "podAnnotations.note=ours"),
            *(f"affinity.{PREFERENCE}.weight=1", f"affinity.{PREFERENCE}.preference.matchExpressions[0].key=pool"),
            f"affinity.{PREFERENCE}.preference.matchExpressions[0].operator=Exists",
            *("tolerations[0].key=system", "tolerations[0].effect=NoSchedule"),
            *("priorityClassName=", "resources.limits.cpu=2", "serviceAccount.annotations.note=ours"),
            *("topologySpreadConstraints[0].maxSkew=1", "topologySpreadConstraints[0].topologyKey=zone"),
            *("topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway", "revisionHistoryLimit=2"),
            *("extraEnv[0].name=A", "extraVolumes[0].name=v", "extraVolumes[0].configMap.name=c"),
            *("extraVolumeMounts[0].name=v", "extraVolumeMounts[0].mountPath=/v"),
            *("extraContainers[0].name=sidecar", "extraContainers[0].image=proxy"),
            *("podSecurityContext.seLinuxOptions.type=spc_t", "securityContext.procMount=Default"),
        )
    ),
    "network of the node": (
        *("agent.hostNetwork=true", "manager.hostNetwork=true", "manager.ui.enabled=false"),
        *("manager.metrics.port=18080", "agent.updateStrategy.type=OnDelete", "manager.updateStrategy.type=Recreate"),
    ),
    "the names of Koordinator": ("configMap.name=koord-config", "scheduler.name=koord-scheduler"),
    "weighted, every extra": (
        *("scheduler.mode=weighted", "scheduler.ignorable=false", "scheduler.profile.inFlightSeconds=5"),
        *("scheduler.extender.secrets={a,b}", "podDisruptionBudgets.maxUnavailable=50%", "manager.replicas=3"),
        *(
            "agent.maxUnavailable=1",
            "flowSchema.shares=5",
            "midNamespaces.admission=policy",
            "rbac.adminsWriteQuotas=true",
        ),
        *("scheduler.extraArgs={--v=4}", "agent.extraArgs={--collect-interval=2s}"),
        *("uninstall.force=true", "uninstall.deleteConfig=true", "uninstall.deletePriorityClasses=true"),
    ),
}


@pytest.fixture(scope="module")
def accepted(cluster: Cluster) -> set[str]:
    """Objects that the API server has accepted so far, as JSON: most are equal with other values."""
    for crd in (CHART / "crds").glob("*.yaml"):
        cluster.define(crd)
    return set()


@pytest.mark.cluster
@pytest.mark.parametrize("case", [*MATRIX, *(path.name for path in (CHART / "values").iterdir())])
def test_api_server_takes_it(cluster: Cluster, helm: Helm, accepted: set[str], case: str) -> None:
    """The API server would store every rendered object: no unknown field, no invalid value."""
    values = None if case in MATRIX else CHART / "values" / case
    rendered = {_in_default(item) for item in render(helm, *MATRIX.get(case, ()), values=values).objects}
    assert rendered
    unknown = sorted(rendered - accepted)
    if unknown:
        dry_run = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", "-o", "name")
        taken = cluster.kubectl(*dry_run, stdin="---\n".join(f"{entry}\n" for entry in unknown))
        assert len(taken.splitlines()) == len(unknown)
    accepted |= rendered


def _in_default(rendered: dict[str, Any]) -> str:
    """An object in a namespace that exists, as JSON: a dry run makes none, and no account for a bare pod either."""
    if rendered["kind"] == "Pod":
        rendered["spec"]["serviceAccountName"] = "default"
    return json.dumps(rendered, sort_keys=True).replace(f'"namespace": "{NAMESPACE}"', '"namespace": "default"')


@pytest.mark.cluster
def test_wrong_object_is_not_taken(cluster: Cluster) -> None:
    """A field that Kubernetes does not know fails the dry run: the test above can fail."""
    wrong = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "wrong"}, "spec": {"port": 1}}
    with pytest.raises(CommandError, match=r"spec\.port: field not declared in schema"):
        cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=json.dumps(wrong))


@pytest.mark.helm
@pytest.mark.parametrize("version", ["v1.30.0", "v1.31.4+k3s1", "v1.32.0-eks-1", "v1.36.2"])
def test_every_version_has_its_objects(helm: Helm, version: str) -> None:
    """From 1.30 on it can be installed; what a version lacks is left out, without a word in values."""
    chart = render(helm, kube_version=version)
    policies = chart.of_kind("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    assert len(policies) == (8 if version < "v1.32" else 10)


@pytest.mark.helm
def test_data_directory_of_others_is_left(helm: Helm, tmp_path: Path) -> None:
    """The init container gives the agent a new directory, and its own again; one with something in it stays."""
    command = render(helm).container("headroom-agent/own-data-dir")["command"]

    def run(directory: Path) -> subprocess.CompletedProcess[str]:
        arguments = [sys.executable, *command[1:-1], str(directory)]
        return subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=60)

    new, disk, theirs = (tmp_path / name for name in ("new", "disk", "theirs"))
    for entry in (new, disk / "lost+found", theirs):
        entry.mkdir(parents=True)
    (theirs / "admin.conf").touch()
    for item in (new, disk):
        assert run(item).returncode == 0
        assert item.stat().st_uid == 65532
    (new / "agent.db").touch()
    assert run(new).returncode == 0
    refused = run(theirs)
    assert refused.returncode == 1
    assert "agent.dataDir" in refused.stderr
    assert theirs.stat().st_uid == os.getuid()


def _understood(cluster: Cluster, path: Path, *flags: str) -> Any:  # noqa: ANN401 - parsed YAML
    """The configuration that kube-scheduler would run with, every default filled in; it only writes it and ends."""
    done = subprocess.run(
        [cluster.binaries.path("kube-scheduler"), f"--write-config-to={path}", "--secure-port=0", *flags],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(path.read_text())


def _weights(config: Any) -> dict[str, int]:  # noqa: ANN401 - parsed YAML
    enabled = config["profiles"][0]["plugins"]["multiPoint"]["enabled"]
    return {plugin["name"]: plugin["weight"] for plugin in enabled if plugin["weight"]}


@pytest.mark.cluster
@pytest.mark.parametrize("mode", ["shortlist", "weighted"])
def test_kube_scheduler_understands_it(cluster: Cluster, tmp_path: Path, mode: str) -> None:
    """kube-scheduler accepts the chart's configuration; in mode `weighted` its own scores weigh ten times as much."""
    defaults = _understood(cluster, tmp_path / "defaults.yaml", f"--kubeconfig={cluster.kubeconfig}")
    config = render(cluster.helm, f"scheduler.mode={mode}").config("headroom-scheduler", "kube-scheduler.yaml")
    config["clientConnection"]["kubeconfig"] = str(cluster.kubeconfig)
    values_file = tmp_path / "given.yaml"
    values_file.write_text(yaml.safe_dump(config))
    result = _understood(cluster, tmp_path / "found.yaml", f"--config={values_file}")
    factor = 10 if mode == "weighted" else 1
    assert _weights(result) == {name: factor * weight for name, weight in _weights(defaults).items()}
    (extender,) = result["extenders"]
    assert (extender["filterVerb"], extender["preemptVerb"]) == ("filter", "preempt")
    assert (extender["nodeCacheCapable"], extender["ignorable"]) == (True, True)
    assert extender["httpTimeout"] == f"{Settings().http_timeout:.0f}s"  # the extender counts what takes longer
    assert extender.get("prioritizeVerb", "") == ("prioritize" if mode == "weighted" else "")
    assert "bindVerb" not in extender
    assert not extender.get("managedResources")
