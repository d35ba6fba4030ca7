"""Uninstall hook, `helm test`, and upgrades from the chart of the release before."""

import subprocess
import tarfile
from io import BytesIO
from typing import Any, Final

import pytest
import yaml

from crds import shadow_accounts
from headroom.runtime import options
from manager import cleanup
from manager.cleanup import Options
from tests.charts.rendered import ROOT, Helm, Rendered, render, rules
from tests.e2e.life import PREVIOUS

PREVIOUS_COMMIT: Final = "0aebac765b37ed04e2050de5228eb308e3f91096"
"""The owner of the packaged chart. A clone without history can still upgrade from it."""
UNINSTALL: Final = "headroom-uninstall"
DOCTOR: Final = "headroom-doctor"


def _history() -> bytes | None:
    """The chart of that commit as a tar; None where there is no such commit, no history or no git."""
    command = ["git", "archive", PREVIOUS_COMMIT, "charts/headroom"]
    try:
        done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, timeout=30)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def _files(package: bytes, folder: str) -> dict[str, Any]:
    """Name -> content; helm rewrites Chart.yaml, so its parsed content is compared."""
    result: dict[str, Any] = {}
    with tarfile.open(fileobj=BytesIO(package)) as archive:
        for member in archive.getmembers():
            if (file := archive.extractfile(member)) is not None:
                result[member.name.removeprefix(folder)] = file.read()
    return {**result, "Chart.yaml": yaml.safe_load(result["Chart.yaml"])}


def test_previous_chart_is_historys() -> None:
    history = _history()
    if history is None:
        pytest.skip("this checkout has no history: the packaged chart cannot be compared with it")
    assert _files(PREVIOUS.read_bytes(), "headroom/") == _files(history, "charts/headroom/")


def _annotation(obj: dict[str, Any], name: str) -> str:
    return str(obj["metadata"]["annotations"][f"helm.sh/{name}"])


def _of(chart: Rendered, name: str) -> list[dict[str, Any]]:
    return [item for item in chart.objects if item["metadata"]["name"] == name]


@pytest.mark.helm
@pytest.mark.parametrize(("name", "hook", "worker"), [(UNINSTALL, "pre-delete", "Job"), (DOCTOR, "test", "Pod")])
def test_rights_last_as_long_as_work(helm: Helm, name: str, hook: str, worker: str) -> None:
    """The rights of a hook are made before its pod and are gone after it, however it ends."""
    result = _of(render(helm), name)
    assert sorted(item["kind"] for item in result) == sorted(
        ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", worker]
    )
    for entry in result:
        assert _annotation(entry, "hook") == hook
        policies = set(_annotation(entry, "hook-delete-policy").split(","))
        assert policies >= {"before-hook-creation", "hook-succeeded"}
        if entry["kind"] != worker:  # of a failed one the log is wanted
            assert _annotation(entry, "hook-weight") == "-5"
            assert "hook-failed" in policies


@pytest.mark.helm
def test_hook_follows_the_values(helm: Helm) -> None:
    """Each value of `uninstall` is a flag of the program, and a right that goes with it."""
    chart = render(helm, "configMap.name=mine", "scheduler.name=placer")
    assert _asked(chart) == Options(
        config_name="mine", scheduler_name="placer", delete_config=True, delete_priority_classes=True
    )
    granted = rules(chart.one("Role", UNINSTALL))
    assert ("", "configmaps", "delete", "mine") in granted
    assert ("coordination.k8s.io", "leases", "delete", "headroom-manager,placer") in granted
    classes = rules(chart.one("ClusterRole", UNINSTALL))
    assert ("scheduling.k8s.io", "priorityclasses", "delete", ",".join(cleanup.PRIORITY_CLASSES)) in classes
    values = ("uninstall.force=true", "uninstall.deleteConfig=false", "uninstall.deletePriorityClasses=false")
    chart = render(helm, *values, "uninstall.withoutHelm=true")
    assert _asked(chart) == Options(force=True, without_helm=True)
    granted = rules(chart.one("Role", UNINSTALL)) | rules(chart.one("ClusterRole", UNINSTALL))
    assert not [pod for pod in granted if pod[1] in {"priorityclasses", "statefulsets", "cronjobs"}]
    assert {entry[3] for entry in granted if entry[1:3] == ("configmaps", "delete")} == {
        "headroom-last-good-config",
        ",".join(shadow_accounts.NAMES),
    }
    assert not _of(render(helm, "uninstall.hook.enabled=false"), UNINSTALL)
    assert not _of(render(helm, "tests.enabled=false"), DOCTOR)


def _asked(chart: Rendered) -> Options:
    (container,) = chart.one("Job", UNINSTALL)["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["/opt/headroom/bin/python", "-m", "manager.cleanup"]
    return options.load(Options, cleanup.PROG, container["args"], {})[0]


@pytest.mark.helm
def test_names_are_the_charts(helm: Helm) -> None:
    """The hook stops and deletes objects by the names that the chart gives them."""
    chart = render(helm, "scheduler.name=placer", "colocationConfig.enable=false")
    for name in (cleanup.MANAGER, cleanup.SCHEDULER):
        labels = chart.one("Deployment", name)["spec"]["template"]["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == name
    (pod,) = chart.of_kind("Pod")
    assert pod["metadata"]["name"] == cleanup.TEST_POD
    assert cleanup.is_headrooms(chart.one("ConfigMap", "slo-controller-config"))
