"""The values of platforms, and the page that describes them. No platform runs here: docs/clouds.md."""

import re
import tarfile
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.charts.rendered import CHART, NAMESPACE, ROOT, Helm, Rendered, render

pytestmark = pytest.mark.helm

FILES: Final = {path.stem: path for path in sorted((CHART / "values").glob("*.yaml"))}
VERSIONS: Final = {
    "gke": "v1.33.5-gke.1",
    "eks": "v1.33.5-eks-1a2b3c4",
    "eks-other-cni": "v1.33.5-eks-1a2b3c4",
    "k3s": "v1.33.5+k3s1",
}
"""The versions that the API servers of a platform report, where they have a suffix."""
PAGE: Final = (ROOT / "docs/clouds.md").read_text(encoding="utf-8")


def _platform(helm: Helm, name: str, *settings: str) -> Rendered:
    return render(helm, *settings, kube_version=VERSIONS.get(name, "v1.33.5"), values=FILES[name])


def _of_page(kind: str) -> dict[str, Any]:
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (result,) = [entry for block in blocks if (entry := yaml.safe_load(block))["kind"] == kind]
    return dict(result)


@pytest.mark.parametrize("name", FILES)
def test_values_of_a_platform_render(helm: Helm, name: str) -> None:
    """All parts are there, and kube-scheduler has an image that exists."""
    chart = _platform(helm, name)
    owners = {item["metadata"]["name"] for item in chart.of_kind("DaemonSet", "Deployment")}
    assert owners == {"headroom-agent", "headroom-manager", "headroom-scheduler"}
    image = chart.container("headroom-scheduler/kube-scheduler")["image"]
    assert image == "registry.k8s.io/kube-scheduler:v1.33.5"


def test_page_names_each_file() -> None:
    assert set(re.findall(r"charts/headroom/values/([a-z0-9-]+)\.yaml`", PAGE)) == set(FILES)


@pytest.mark.parametrize("name", ["gke", "eks"])
def test_webhook_has_an_open_port(helm: Helm, name: str) -> None:
    """The port is one of those that the platform opens for the control plane, and it is the pod's own."""
    chart = _platform(helm, name)
    assert "--webhook-listen=:10250" in chart.container("headroom-manager/manager")["args"]
    assert "hostNetwork" not in dict(chart.pods())["headroom-manager"]


def test_control_plane_reaches_the_node(helm: Helm) -> None:
    """With another CNI the manager listens on the node, on ports that kubelet does not use."""
    chart = _platform(helm, "eks-other-cni")
    assert dict(chart.pods())["headroom-manager"]["hostNetwork"] is True
    ports = {port["containerPort"] for port in chart.container("headroom-manager/manager")["ports"]}
    assert ports.isdisjoint({10250, 10256, 8080})


@pytest.mark.parametrize("certificates", ["self", "cert-manager"])
def test_webhook_is_annotated(helm: Helm, certificates: str) -> None:
    chart = _platform(helm, "aks", f"manager.webhook.certificates={certificates}")
    hook = chart.one("ValidatingWebhookConfiguration", "headroom-colocation-config")["metadata"]["annotations"]
    assert hook["admissions.enforcer/disabled"] == "true"
    assert ("cert-manager.io/inject-ca-from" in hook) == (certificates == "cert-manager")


def test_platform_assigns_users(helm: Helm) -> None:
    """On OpenShift pods but the agent's have no user or group of their own, and still no privilege."""
    for owner, pod in _platform(helm, "openshift").pods():
        context = pod["securityContext"]
        assert ("runAsUser" in context, "runAsGroup" in context) == ((owner == "headroom-agent"),) * 2, owner
        assert context["runAsNonRoot"] is True


def test_constraints_admit_the_agent(helm: Helm) -> None:
    """The SecurityContextConstraints of the page allow the agent's pod, and nothing more."""
    constraints = _of_page("SecurityContextConstraints")
    pod = dict(_platform(helm, "openshift").pods())["headroom-agent"]
    assert constraints["users"] == [f"system:serviceaccount:{NAMESPACE}:{pod['serviceAccountName']}"]
    kinds = {kind for volume in pod["volumes"] for kind in set(volume) - {"name"}}
    assert kinds == set(constraints["volumes"])
    containers = [*pod["initContainers"], *pod["containers"]]
    added = {name for item in containers for name in item["securityContext"]["capabilities"].get("add", ())}
    assert added == set(constraints["allowedCapabilities"])
    assert all(item["securityContext"]["readOnlyRootFilesystem"] for item in containers)
    assert pod["securityContext"]["seLinuxOptions"] == {"type": "spc_t"}
    assert constraints["seLinuxContext"] == constraints["runAsUser"] == {"type": "RunAsAny"}


def test_quota_admits_critical_pods(helm: Helm) -> None:
    quota = _of_page("ResourceQuota")
    (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert {pod["priorityClassName"] for _, pod in render(helm).pods()} == set(scope["values"])
    assert quota["metadata"]["namespace"] == NAMESPACE


@pytest.mark.parametrize("name", ["k3s", "kind"])
def test_small_clusters_have_one_replica(helm: Helm, name: str) -> None:
    deployments = _platform(helm, name).of_kind("Deployment")
    assert [item["spec"]["replicas"] for item in deployments] == [1, 1]


def test_kind_uses_loaded_images(helm: Helm) -> None:
    """The images have the names that the page builds and loads, and kubelet does not pull those that are there."""
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    chart = helm("template", "headroom", CHART, "-f", FILES["kind"])
    loaded = f"kind load docker-image localhost/headroom-agent:{version} localhost/headroom-manager:{version}\n"
    assert loaded in PAGE
    for part in ("agent", "manager"):
        assert f"image: localhost/headroom-{part}:{version}\n" in chart
    assert set(re.findall(r"imagePullPolicy: (.*)", chart)) == {"IfNotPresent"}


def test_files_are_in_the_package(helm: Helm, tmp_path: Path) -> None:
    """A packaged chart has the files, so `--values` finds them in it."""
    helm("package", CHART, "-d", tmp_path)
    (package,) = tmp_path.glob("headroom-*.tgz")
    with tarfile.open(package) as archive:
        assert {f"headroom/values/{name}.yaml" for name in FILES} <= set(archive.getnames())
