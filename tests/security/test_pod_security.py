"""Pod Security Admission, checked by a real API server: every pod of Headroom but the agent's meets `restricted`."""

import re
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.charts.rendered import render
from tests.manager.stage import refuses_privileges
from tests.support.waiting import eventually
from tools.devcluster import Cluster
from tools.devcluster.api import ApiError

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
Admit = Callable[[str, Json], str]

EVERYTHING = (
    "scheduler.watcher.enabled=true",
    "scheduler.metrics.enabled=true",
    "scheduler.extender.secrets={prometheus}",
    "uninstall.hook.enabled=true",
    "tests.enabled=true",
)
"""All that adds a container, a volume or a port to some pod."""
EXCEPTIONS = {
    "baseline": ["hostPath volumes"],
    "restricted": ["restricted volume types", "runAsNonRoot != true", "runAsUser=0", "unrestricted capabilities"],
}
"""Reasons for which the agent's pod is rejected, by level. docs/security.md lists the same."""


@pytest.fixture(scope="module", params=[(), EVERYTHING], ids=["default values", "everything on"])
def pods(request: pytest.FixtureRequest, cluster: Cluster) -> dict[str, Json]:
    return dict(render(cluster.helm, *request.param).pods())


@pytest.fixture(scope="module")
def admit(cluster: Cluster) -> Iterator[Admit]:
    """The API server's objection to a pod in a namespace of a level, or nothing."""
    names = {level: f"psa-{level}-{uuid.uuid4().hex[:6]}" for level in ("privileged", "baseline", "restricted")}
    accounts: set[tuple[str, str]] = set()
    for level, name in names.items():
        cluster.create_namespace(name)
        label = {"pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/enforce-version": "latest"}
        cluster.api.merge(f"/api/v1/namespaces/{name}", {"metadata": {"labels": label}})
    for level in ("baseline", "restricted"):
        eventually(partial(refuses_privileges, cluster, names[level]), f"{names[level]} being {level}")

    def ask(level: str, spec: Json) -> str:
        namespace, account = names[level], spec["serviceAccountName"]
        path = f"/api/v1/namespaces/{namespace}"
        if (namespace, account) not in accounts:
            made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}
            cluster.api.request("POST", f"{path}/serviceaccounts", made)
            accounts.add((namespace, account))
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "candidate"}, "spec": spec}
        try:
            cluster.api.request("POST", f"{path}/pods?dryRun=All", pod)
        except ApiError as error:
            return str(error)
        return ""

    yield ask
    for name in names.values():
        cluster.kubectl("delete", "namespace", name, "--wait=false")


def test_restricted_is_enough(pods: dict[str, Json], admit: Admit) -> None:
    """Manager, scheduler, the hook and the test of helm run where only `restricted` pods may."""
    remaining = {name: spec for name, spec in pods.items() if name != "headroom-agent"}
    assert remaining.keys() >= {"headroom-manager", "headroom-scheduler", "headroom-uninstall", "headroom-doctor"}
    assert {name: admit("restricted", spec) for name, spec in remaining.items()} == dict.fromkeys(remaining, "")


@pytest.mark.parametrize("level", EXCEPTIONS)
def test_exceptions_of_the_agent(pods: dict[str, Json], admit: Admit, level: str) -> None:
    """The agent is rejected for the listed reasons only, and runs where `privileged` pods may."""
    objection = admit(level, pods["headroom-agent"])
    assert f'violates PodSecurity "{level}:latest"' in objection
    # Reasons are separated by commas outside of parentheses, each with its details in a pair of them.
    reasons = re.sub(r"\([^()]*\)", "", objection.partition(':latest": ')[2])
    assert sorted(entry.strip() for entry in reasons.split(",")) == sorted(EXCEPTIONS[level])
    assert admit("privileged", pods["headroom-agent"]) == ""


def test_admission_is_at_work(pods: dict[str, Json], admit: Admit) -> None:
    """The pods that passed would fail with a privilege."""
    spec = dict(pods["headroom-manager"], hostNetwork=True)
    assert "host namespaces" in admit("restricted", spec)
    assert "host namespaces" in admit("baseline", spec)
