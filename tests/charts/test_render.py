import json
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from agent.settings import load
from crds.names import CONFIG_MAP_NAME, TAINT_HOT
from crds.predict_policy import PredictPolicy
from tests.charts.rendered import CHART, NAMESPACE, REGISTRY, ROOT, Helm, Rendered, render, rules
from tools.devcluster import CommandError

pytestmark = pytest.mark.helm

PACKAGES = {
    "headroom-agent/agent": "agent",
    "headroom-manager/manager": "manager",
    "headroom-scheduler/extender": "scheduler_plugins",
}


@pytest.fixture(scope="module")
def chart(helm: Helm) -> Rendered:
    return render(helm)


def test_lint_is_clean(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


def test_containers_hold_no_privilege(chart: Rendered) -> None:
    """But for the one init container; each states its requests and a memory limit, and services are probed."""
    locked = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    owned = {
        "runAsUser": 0,
        "runAsGroup": 0,
        "runAsNonRoot": False,
        "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
    }
    for path, container in chart.containers():
        expected = locked | (owned if path == "headroom-agent/own-data-dir" else {})
        assert container["securityContext"] == expected, path
        resources = {part: set(amounts) for part, amounts in container["resources"].items()}
        assert resources == {"requests": {"cpu", "memory"}, "limits": {"memory"}}, path
    for owner in chart.of_kind("DaemonSet", "Deployment"):
        for container in owner["spec"]["template"]["spec"]["containers"]:
            assert {"readinessProbe", "livenessProbe"} <= set(container), owner["metadata"]["name"]


def test_pods_have_no_identity(chart: Rendered) -> None:
    """Every pod runs as uid 65532 under the runtime's seccomp profile and shares nothing with the node."""
    for owner, pod in chart.pods():
        security = pod["securityContext"]
        assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 65532), owner
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, owner
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod), owner


def test_only_agent_mounts_host(chart: Rendered) -> None:
    """Only the agent sees the node's files: /proc and cgroups read-only, and one folder of its own."""
    host = {
        owner: {volume["name"]: volume["hostPath"]["path"] for volume in pod.get("volumes", ()) if "hostPath" in volume}
        for owner, pod in chart.pods()
    }
    data = {"proc": "/proc", "cgroup": "/sys/fs/cgroup", "data": "/var/lib/headroom"}
    assert {owner: paths for owner, paths in host.items() if paths} == {"headroom-agent": data}
    mounts = {mount["name"]: mount for mount in chart.container("headroom-agent/agent")["volumeMounts"]}
    for name in ("proc", "cgroup"):
        assert mounts[name]["readOnly"] is True
        assert mounts[name]["mountPropagation"] == "HostToContainer"
        assert mounts[name]["mountPath"] == f"/host{data[name]}"
    assert mounts["data"]["mountPath"] == data["data"]


@pytest.mark.parametrize(("status", "exit_code"), [(200, 0), (503, 1), (None, 1)])
def test_extender_probe_tells(chart: Rendered, status: int | None, exit_code: int) -> None:
    """The probe inside the pod passes when the extender answers 200, and else prints why in one line."""

    class Extender(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status or 0)
            self.end_headers()
            self.wfile.write(b"not ready\n")

        def log_message(self, *_: object) -> None:
            pass

    *interpreter, program = chart.container("headroom-scheduler/extender")["readinessProbe"]["exec"]["command"]
    with HTTPServer(("127.0.0.1", 0), Extender) as server:
        program = program.replace("9820", str(server.server_port))
        if status is None:
            server.server_close()
        else:
            Thread(target=server.handle_request, daemon=True).start()
        command = [sys.executable, *interpreter[1:], program]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert done.returncode == exit_code
    assert "Traceback" not in done.stderr
    assert bool(done.stderr) == bool(exit_code)


def test_rbac_has_no_wildcard(chart: Rendered) -> None:
    """No role of ours holds a wildcard, reads secrets but the webhook's own, or goes through the kubelet's proxy."""
    for role in chart.of_kind("ClusterRole", "Role"):
        for group, resource, verb, names in rules(role):
            hook = role["metadata"]["name"] == "headroom-uninstall" and verb == "list"  # whether helm uninstalls
            assert resource != "secrets" or names == "headroom-manager-webhook-tls" or hook, role["metadata"]["name"]
            assert "*" not in (group, resource, verb), role["metadata"]["name"]
            assert resource not in {"nodes/proxy", "pods/exec"}, role["metadata"]["name"]


def test_agent_has_a_policy(helm: Helm) -> None:
    """The agent's own prediction policy reaches it as one flag that it can follow; a wrong key is refused."""
    settings = ["agent.predictPolicy.model=recent-max", "agent.predictPolicy.parameters.windowDays=3"]
    args = render(helm, *settings).container("headroom-agent/agent")["args"]
    policy = load([arg for arg in args if arg.startswith("--predict-policy")], {}).train.predict_policy
    assert policy == PredictPolicy(model="recent-max", parameters={"windowDays": 3})
    with pytest.raises(CommandError, match="predictPolicy"):
        render(helm, "agent.predictPolicy.reclaimRatio=50")


def test_agent_knows_labels_of_templates(helm: Helm) -> None:
    """Labels of values reach the agent as one flag."""
    args = render(helm, "agent.workloadLabels={example.com/pipeline+step,tool}").container("headroom-agent/agent")[
        "args"
    ]
    templates = load([arg for arg in args if arg.startswith("--workload-labels")], {}).train.workload_labels
    assert [template.keys for template in templates] == [("example.com/pipeline", "step"), ("tool",)]
    with pytest.raises(CommandError, match="workloadLabels"):
        render(helm, "agent.workloadLabels={a b}")


def test_only_manager_writes_nodes(chart: Rendered) -> None:
    """Only the manager may write to Nodes, and only their status; and so may the cleanup at the end."""
    writers = {
        (role["metadata"]["name"], resource, verb)
        for role in chart.of_kind("ClusterRole", "Role")
        for _, resource, verb, _ in rules(role)
        if resource.startswith("nodes") and verb not in {"get", "list", "watch"}
    }
    assert writers == {(name, "nodes/status", "patch") for name in ("headroom-manager", "headroom-uninstall")}
    assert chart.one("ClusterRole", "headroom-uninstall")["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"


def test_hot_nodes_grant_the_right_to_taint(helm: Helm) -> None:
    """With manager.hotNodes.enabled, manager and hook may patch Nodes, and Headroom's pods tolerate the taint."""
    chart = render(helm, "manager.hotNodes.enabled=true", "agent.tolerations=null")
    for name in ("headroom-manager", "headroom-uninstall"):
        granted = {(resource, verb) for _, resource, verb, _ in rules(chart.one("ClusterRole", name))}
        assert granted >= {("nodes", "get"), ("nodes", "patch")}
    for kind, name in (("Deployment", "manager"), ("Deployment", "scheduler"), ("DaemonSet", "agent")):
        pod = chart.one(kind, f"headroom-{name}")["spec"]["template"]["spec"]
        assert pod["tolerations"] == [{"key": TAINT_HOT, "operator": "Exists"}], name
    agent = render(helm, "manager.hotNodes.enabled=true").one("DaemonSet", "headroom-agent")
    assert agent["spec"]["template"]["spec"]["tolerations"] == [{"operator": "Exists"}]


def test_bindings_have_their_accounts(chart: Rendered) -> None:
    accounts = {account["metadata"]["name"] for account in chart.of_kind("ServiceAccount")}
    assert {pod["serviceAccountName"] for _, pod in chart.pods()} == accounts
    for binding in chart.of_kind("ClusterRoleBinding", "RoleBinding"):
        for subject in binding["subjects"]:
            assert subject["name"] in accounts
            assert subject["namespace"] == NAMESPACE


@pytest.mark.parametrize("path", PACKAGES)
def test_flags_exist(chart: Rendered, path: str) -> None:
    """Every flag in the chart is one that the service knows, and every command is one of our console scripts."""
    help_text = subprocess.run(
        [sys.executable, "-m", PACKAGES[path], "--help"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    container = chart.container(path)
    scripts = (ROOT / "pyproject.toml").read_text()
    assert f'\n{container["command"][0]} = "{PACKAGES[path]}.__main__:main"' in scripts
    flags = set(re.findall(r"--[a-z][a-z-]*", help_text))
    assert {flag.partition("=")[0] for flag in container["args"]} <= flags


def test_scheduler_config_is_documented_one(chart: Rendered) -> None:
    documented = yaml.safe_load((ROOT / "scheduler_plugins/kube-scheduler-configuration.yaml").read_text())
    assert chart.config("headroom-scheduler", "kube-scheduler.yaml") == documented


def test_rate_of_kube_scheduler_can_be_lower(helm: Helm) -> None:
    chart = render(helm, "scheduler.clientConnection.qps=20", "scheduler.clientConnection.burst=40")
    config = chart.config("headroom-scheduler", "kube-scheduler.yaml")
    assert config["clientConnection"] == {"qps": 20, "burst": 40}


def profile_of(helm: Helm, path: Path, *settings: str, values: Path | None = None) -> Any:  # noqa: ANN401 - numpy
    from scheduler_plugins.profile import load_profile  # noqa: PLC0415 - numpy

    file = path / "profile.yaml"
    file.write_text(
        render(helm, *settings, values=values).one("ConfigMap", "headroom-scheduler")["data"]["profile.yaml"]
    )
    return load_profile(file)


def test_weighted_mode_scores(helm: Helm, tmp_path: Path) -> None:
    """The extender has the mode; that of kube-scheduler is in test_matrix.py."""
    answering = profile_of(helm, tmp_path, "scheduler.mode=weighted", "scheduler.profile.shortlist.size=4").answering
    assert (answering.mode, answering.shortlist.size) == ("weighted", 4)


def test_arguments_are_understood(helm: Helm, tmp_path: Path) -> None:
    """An argument of a plugin can be set by its path; all others, and the list of plugins, stay built in."""
    result = profile_of(helm, tmp_path, "scheduler.profile.arguments.CapacityScheduling.reclaim.dryRun=true")
    plugins = {part.name: part.plugin for part in result.enabled}
    quotas: Any = plugins["CapacityScheduling"]
    assert (quotas.reclaim.dry_run, quotas.max_missing, len(plugins)) == (True, "infinite", 4)


def test_upstream_profile_is_understood(helm: Helm, tmp_path: Path) -> None:
    profile, plugin = "scheduler.profile", "scheduler.profile.profiles[0].plugins.score.enabled[0]"
    kind = (f"{profile}.apiVersion=kubescheduler.config.k8s.io/v1", f"{profile}.kind=KubeSchedulerConfiguration")
    result = profile_of(helm, tmp_path, *kind, f"{plugin}.name=LowRiskOverCommitment", f"{plugin}.weight=10")
    (part,) = result.enabled
    assert (part.name, part.weight, part.points) == ("LowRiskOverCommitment", 10, frozenset({"score"}))


def test_every_argument_can_be_set(helm: Helm, tmp_path: Path) -> None:
    """Each argument of each plugin, given in values with its default, is taken by the schema and by the extender."""
    from scheduler_plugins.arguments import encode  # noqa: PLC0415 - numpy
    from scheduler_plugins.plugins import PLUGINS  # noqa: PLC0415 - numpy
    from scheduler_plugins.profile.registry import build  # noqa: PLC0415 - numpy

    defaults = {name: encode(build(name, {}, name)) for name in PLUGINS}
    values = {"plugins": [{"name": name} for name in PLUGINS], "arguments": defaults}
    path = tmp_path / "values.yaml"
    path.write_text(json.dumps({"scheduler": {"profile": values}}))
    result = profile_of(helm, tmp_path, values=path)
    assert {entry.name: encode(entry.plugin) for entry in result.enabled} == defaults
    assert sum(len(default) for default in defaults.values()) > 25


def test_wrong_profile_starts_nothing(helm: Helm) -> None:
    """Before both containers of the scheduler, the extender's very flags and configuration are checked."""
    rendered = render(
        helm,
        "scheduler.profile.inFlightSeconds=5",
        "scheduler.watcher.enabled=true",
        "scheduler.extender.extraArgs={--stale-after=60s}",
    )
    (check,) = dict(rendered.pods())["headroom-scheduler"]["initContainers"]
    extender = rendered.container("headroom-scheduler/extender")
    assert check["args"] == ["--check", *extender["args"]]
    assert "--profile=/etc/headroom/profile.yaml" in check["args"]
    assert (check["image"], check["command"]) == (extender["image"], extender["command"])
    assert check["volumeMounts"] == [mount for mount in extender["volumeMounts"] if mount["name"] == "config"]


def test_leader_is_kube_schedulers(helm: Helm) -> None:
    """The extender reads the very Lease that its kube-scheduler holds, and acts for that scheduler's pods."""
    chart = render(helm, "scheduler.name=by-load")
    election = chart.config("headroom-scheduler", "kube-scheduler.yaml")["leaderElection"]
    lease = f"{election['resourceNamespace']}/{election['resourceName']}"
    assert lease == f"{NAMESPACE}/by-load"
    flags = chart.container("headroom-scheduler/extender")["args"]
    assert {f"--leader-lease={lease}", "--reclaim-for=by-load"} <= set(flags)
    assert ("coordination.k8s.io", "leases", "get", "by-load") in rules(chart.one("Role", "headroom-scheduler"))


def test_config_change_restarts_scheduler(helm: Helm) -> None:

    def template(*settings: str) -> object:
        deployment = render(helm, *settings).one("Deployment", "headroom-scheduler")
        return deployment["spec"]["template"]["metadata"]["annotations"]

    assert template() == template("scheduler.replicas=3")
    assert template() != template("scheduler.ignorable=false")


def test_config_map_from_values(helm: Helm) -> None:
    rendered = render(helm, "colocationConfig.enable=true", "colocationConfig.degradeTimeMinutes=5")
    assert rendered.config(CONFIG_MAP_NAME, "colocation-config") == {"enable": True, "degradeTimeMinutes": 5}
    without = render(helm, "colocationConfig=null")
    assert [obj for obj in without.of_kind("ConfigMap") if obj["metadata"]["name"] == CONFIG_MAP_NAME] == []


def test_names_of_digits_stay_text(helm: Helm) -> None:
    """Release, namespace, scheduler and ConfigMap may have names that YAML would take for numbers."""
    names = "--set-string=scheduler.name=33333,configMap.name=44444"
    for monitor in ("podMonitor", "serviceMonitor"):
        more = f"--set=prometheus.{monitor}=true,networkPolicy.enabled=true,grafana.dashboards.enabled=true"
        text = helm("template", "11111", str(CHART), "--namespace=22222", names, more, f"--set={REGISTRY}")
        assert '"11111"' in text
        assert re.findall(r"^.*[ \[](?:11111|22222|33333|44444)\]?$", text, re.MULTILINE) == []
