"""The chart for tools that render it and apply the result: docs/gitops.md."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.charts.rendered import CHART, NAMESPACE, REGISTRY, ROOT, Helm, render
from tools.devcluster import Cluster, CommandError

GITOPS: Final = ("--set", f"{REGISTRY},gitops=true,colocationConfig.enable=true")
PAGE: Final = "docs/gitops.md"


def manifests() -> list[dict[str, Any]]:
    """The objects of the page, as a user pastes them."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", (ROOT / PAGE).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [entry for block in blocks for entry in yaml.safe_load_all(block)]


@pytest.mark.helm
@pytest.mark.parametrize("certificates", ["self", "cert-manager"])
def test_second_rendering_is_the_first(helm: Helm, certificates: str) -> None:
    """An upgrade renders the bytes of the installation: no time, random text or certificate is in them."""
    flags = ("template", "headroom", str(CHART), *GITOPS, "--set", f"manager.webhook.certificates={certificates}")
    first = helm(*flags)
    assert first == helm(*flags) == helm(*flags, "--is-upgrade")
    assert "kind: DaemonSet" in first


@pytest.mark.helm
def test_nothing_is_a_hook(helm: Helm) -> None:
    """The ConfigMap is an object of the chart; hooks and tests are absent, and other objects are the same."""
    config = "colocationConfig.enable=true"
    hooks, without = render(helm, config), render(helm, config, "gitops=true")
    assert "helm.sh/hook" not in json.dumps(without.objects)
    assert "annotations" not in without.one("ConfigMap", "slo-controller-config")["metadata"]
    absent = [item for item in hooks.objects if item not in without.objects]
    names = {item["metadata"]["name"] for item in absent}
    assert names == {"headroom-uninstall", "headroom-doctor", "slo-controller-config"}


@pytest.mark.helm
@pytest.mark.parametrize("value", ["withoutHelm", "force"])
def test_values_of_the_hook_are_refused(helm: Helm, value: str) -> None:
    with pytest.raises(CommandError, match=r"render the Job without gitops, as in docs/gitops\.md"):
        render(helm, "gitops=true", f"uninstall.{value}=true")


@pytest.mark.helm
def test_values_of_the_page_are_values(helm: Helm, tmp_path: Path) -> None:
    """Both tools install the chart with the values of the page, into one namespace."""
    objects = {entry["kind"]: entry for entry in manifests()}
    application, release = objects["Application"]["spec"], objects["HelmRelease"]
    both = (application["source"]["helm"]["valuesObject"], release["spec"]["values"])
    assert [values.get("gitops", False) for values in both] == [True, False]
    assert {application["destination"]["namespace"], release["metadata"]["namespace"]} == {NAMESPACE}
    assert (ROOT / application["source"]["path"]).samefile(ROOT / release["spec"]["chart"]["spec"]["chart"])
    for values in both:
        path = tmp_path / "values.yaml"
        path.write_text(json.dumps(values))
        assert "kind: DaemonSet" in helm("template", "headroom", str(CHART), "-f", path)


@pytest.mark.cluster
def test_cluster_changes_nothing(cluster: Cluster) -> None:
    """A ConfigMap and a koord-manager in the cluster do not change the objects or the notes."""
    name = "gitops-test"

    def rendered() -> str:
        flags = ("install", "headroom", str(CHART), "-n", name, "--dry-run=server", *GITOPS)
        return re.sub(r"LAST DEPLOYED: .*", "", cluster.helm(*flags))

    cluster.create_namespace(name)
    first = rendered()
    release = {"meta.helm.sh/release-name": "headroom", "meta.helm.sh/release-namespace": name}
    adopted = {"annotations": release, "labels": {"app.kubernetes.io/managed-by": "Helm"}}
    metadata = {"name": "slo-controller-config", "namespace": name, **adopted}
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"colocation-config": "{}"}})
    cluster.kubectl("-n", name, "create", "deployment", "koord-manager", "--image=none", "--replicas=0")
    assert rendered() == first
    cluster.kubectl("delete", "namespace", name, "--wait=false")
