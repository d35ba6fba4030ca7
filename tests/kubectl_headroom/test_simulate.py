import json
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from headroom.kube import ApiError, ApiServer
from kubectl_headroom import arguments
from kubectl_headroom.errors import USAGE, CommandError
from kubectl_headroom.simulate import command, pod_file, profile
from tests.scheduler_plugins.objects import NOW, Json, node, node_metric, pod
from tests.support.api import FakeApi

CONFIG_MAP = "/api/v1/namespaces/headroom-system/configmaps/headroom-scheduler"
METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
HEAD = "apiVersion: headroom.dev/v1alpha1\nkind: HeadroomSchedulerConfiguration\n"
LOAD_AWARE = "{name: LoadAwareScheduling, args: {estimatedScalingFactors: {cpu: 100, memory: 100}}}"
PROFILE = f"{HEAD}plugins: [{LOAD_AWARE}, {{name: NodeResourcesAllocatable, weight: 3}}]\n"
POD = {"apiVersion": "v1", "kind": "Pod", **pod("web", {"cpu": "10", "memory": "10Gi"})}


def _cluster(text: str | None = PROFILE, *pods: Json) -> FakeApi:
    """Three nodes: `cold` uses 10 of 100 cores, `warm` 50 of 200, `hot` 70 of 100."""
    api = FakeApi()
    for name, cores, used in (("cold", "100", "10"), ("warm", "200", "50"), ("hot", "100", "70")):
        api.put(f"/api/v1/nodes/{name}", node(name, cores))
        api.put(f"{METRICS}/{name}", node_metric(name, used))
    for item in pods:
        api.put(f"/api/v1/pods/{item['metadata']['name']}", item)
        api.put(f"/api/v1/namespaces/default/pods/{item['metadata']['name']}", item)
    if text is not None:
        api.put(CONFIG_MAP, {"metadata": {"name": "headroom-scheduler"}, "data": {"profile.yaml": text}})
    return api


async def _run(api: FakeApi, *flags: str) -> None:
    options = arguments.parser().parse_args(["simulate", "pod", *flags])
    source = options.source
    request = command.PodRequest(
        name=source,
        given=pod_file.load(source) if pod_file.is_file(source) else None,
        chosen=profile.of_file(options.profile, options.scheduler_name) if options.profile else None,
        namespace=options.namespace,
        headroom_namespace=options.headroom_namespace,
        scheduler_name=options.scheduler_name,
        node=options.node,
        limit=options.limit,
        output=options.output,
    )
    await command.pod(cast("ApiServer", api), request, lambda: NOW + 1)


@pytest.fixture
def written(tmp_path: Path) -> str:
    return str(_write(tmp_path, POD))


def _write(folder: Path, *documents: Any) -> Path:  # noqa: ANN401 - whatever a file may hold
    path = folder / "pods.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return path


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


async def test_table_ranks_nodes(written: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nodes that pass are ranked by the weighted mean of their scores; the rejected one has the reason."""
    await _run(_cluster(), written)
    lines = _lines(capsys)
    assert lines[0] == "Pod default/web: 2 of 3 nodes pass"
    assert "expected to use cpu 10000m, memory 10Gi" in lines[1]
    assert lines[2] == (
        "profile: ConfigMap headroom-system/headroom-scheduler; mode shortlist: kube-scheduler chooses among the "
        "better 50%, at least 8 of each zone"
    )
    # cold is left 80 % of both resources; it is the smaller of the two that pass: (80 + 3 * 100) / 4.
    # warm is left 70 % of the cores and 80 % of the memory: (75 + 0) / 4.
    table = lines.index("RANK NODE TOTAL LoadAwareScheduling NodeResourcesAllocatable")
    assert lines[table + 1 : table + 3] == ["1 cold 95.0 80 -> 20.0 100 -> 75.0", "2 warm 18.8 75 -> 18.8 0 -> 0.0"]
    assert "1 LoadAwareScheduling node(s) cpu usage exceed threshold" in lines
    assert any(line.startswith("- Not simulated: kube-scheduler's own filters") for line in lines)


async def test_json_has_every_number(written: str, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has every node with verdicts, scores and numbers."""
    await _run(_cluster(), written, "-o", "json")
    data = json.loads(capsys.readouterr().out)
    assert (data["kind"], data["version"], data["profile"]["mode"]) == ("PodSimulation", 1, "shortlist")
    (simulated,) = data["pods"]
    assert simulated["estimate"] == {"cpu": 10_000, "memory": 10 * 2**30}
    cold, warm, hot = simulated["nodes"]
    assert (cold["node"], cold["rank"], cold["total"], cold["score"]) == ("cold", 1, 95.0, 95)
    assert warm["plugins"]["LoadAwareScheduling"] == {"raw": 75.0, "weight": 1.0, "weighted": 18.75}
    assert (hot["passes"], hot["rank"], hot["total"], hot["plugins"]) == (False, None, None, {})
    (refusal,) = hot["refusals"]
    assert refusal["plugin"] == "LoadAwareScheduling"
    assert refusal["binding"] is None or "usageThresholds" in refusal["binding"]


async def test_one_node_in_full(written: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--node shows that node alone, with the numbers of each plugin that reports them."""
    await _run(_cluster(), written, "--node", "warm")
    lines = _lines(capsys)
    assert "Node warm: rank 2, total 18.8" in lines
    assert "LoadAwareScheduling passes 75 1 18.8" in lines
    assert not any("cold" in line for line in lines)
    with pytest.raises(CommandError, match=r"There is no node 'wram'. Did you mean warm\?"):
        await _run(_cluster(), written, "--node", "wram")


async def test_limit_shortens_tables(written: str, capsys: pytest.CaptureFixture[str]) -> None:
    await _run(_cluster(), written, "--limit", "1")
    out = capsys.readouterr().out
    assert "; 1 more with --limit 0)" in out
    assert "warm" not in out


async def test_pod_of_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    """A pod of the cluster is found by its name, and its own requests are not in its way."""
    there = pod("web", {"cpu": "10", "memory": "10Gi"}, node="cold", scheduled=-10)
    await _run(_cluster(PROFILE, there), "web", "-o", "json")
    data = json.loads(capsys.readouterr().out)
    (simulated,) = data["pods"]
    assert simulated["nodes"][0]["plugins"]["LoadAwareScheduling"]["raw"] == 80
    assert any("web runs on cold already" in note for note in data["notes"])
    with pytest.raises(CommandError, match="There is no pod 'wbe' in namespace default"):
        await _run(_cluster(), "wbe")


async def test_shipped_profile_stands_in(written: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a profile in the cluster, or the right to read it, the one that ships is simulated, and it says so."""
    await _run(_cluster(None), written, "--node", "cold")
    assert "profile: the one that ships, because there is no ConfigMap headroom-system/headroom-scheduler" in (
        capsys.readouterr().out
    )
    api = _cluster()
    api.fails[f"GET {CONFIG_MAP}"] = ApiError(403, "Forbidden", "no")
    await _run(api, written, "--node", "cold")
    assert "the one that ships, because ConfigMap headroom-system/headroom-scheduler may not be read" in (
        capsys.readouterr().out
    )


async def test_mode_follows_cluster(written: str, capsys: pytest.CaptureFixture[str]) -> None:
    api = _cluster(None)
    config = "extenders: [{filterVerb: filter, prioritizeVerb: prioritize}]"
    api.put(CONFIG_MAP, {"metadata": {"name": "headroom-scheduler"}, "data": {"kube-scheduler.yaml": config}})
    await _run(api, written, "--node", "cold")
    assert "mode weighted" in capsys.readouterr().out


async def test_profile_of_file(written: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--profile tries a file; its errors are reported before any request to the cluster."""
    path = tmp_path / "profile.yaml"
    path.write_text(f"{HEAD}plugins: [{{name: NodeResourcesAllocatable, args: {{mode: Most}}}}]\n")
    await _run(_cluster(), written, "--profile", str(path))
    lines = _lines(capsys)
    assert lines[0] == "Pod default/web: 3 of 3 nodes pass"
    assert "1 warm 100.0 100 -> 100.0" in lines
    path.write_text("kind: Pod\n")
    with pytest.raises(CommandError, match="kind: 'Pod': must be HeadroomSchedulerConfiguration") as caught:
        await _run(_cluster(), written, "--profile", str(path))
    assert caught.value.exit_code == USAGE


async def test_provider_is_told(written: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "profile.yaml"
    arguments_ = "{metricProvider: {type: Prometheus, address: 'http://p:9090'}}"
    path.write_text(f"{HEAD}plugins: [{{name: LowRiskOverCommitment, args: {arguments_}}}]\n")
    await _run(_cluster(), written, "--profile", str(path))
    assert "LowRiskOverCommitment reads a metrics provider" in capsys.readouterr().out


async def test_priority_comes_from_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pod of a file gets the priority of its PriorityClass, else of the default one; an unknown one is reported."""
    api = _cluster()
    for name, value, default in (("koord-mid", 7500, False), ("normal", 100, True)):
        made = {"metadata": {"name": name}, "value": value, "globalDefault": default}
        api.put(f"{command.PRIORITY_CLASSES}/{name}", made)
    pods = [
        {"kind": "Pod", **pod("a", priorityClassName="koord-mid")},
        {"kind": "Pod", **pod("b")},
        {"kind": "Pod", **pod("c", priority=5)},
        {"kind": "Pod", **pod("d", priorityClassName="nosuch")},
    ]
    await _run(api, str(_write(tmp_path, *pods)), "-o", "json")
    data = json.loads(capsys.readouterr().out)
    assert [entry["priority"] for entry in data["pods"]] == [7500, 100, 5, 0]
    assert data["pods"][0]["band"] == "koord-mid"
    assert any("there is no PriorityClass nosuch" in note for note in data["notes"])


def test_templates_are_pods(tmp_path: Path) -> None:
    """Every kind that creates pods is simulated by its template; other objects in the file are ignored."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {**POD["spec"], "nodeName": "x"}}
    kinds = {kind: {"template": template} for kind in pod_file.TEMPLATE_AT}
    kinds["CronJob"] = {"jobTemplate": {"spec": {"template": template}}}
    objects = [
        {"kind": kind, "metadata": {"name": kind.lower(), "namespace": "shop"}, "spec": spec}
        for kind, spec in kinds.items()
    ]
    many = {"kind": "List", "items": [POD, {"kind": "Service"}]}
    result = pod_file.read(str(_write(tmp_path, *objects, None, many)), "default")
    assert [item.title for item in result] == [*(f"{kind} shop/{kind.lower()}" for kind in kinds), "Pod default/web"]
    for entry in result:
        assert "nodeName" not in entry.pod["spec"]
        assert entry.pod["spec"]["containers"]
    owner = {element.title: element.pod["metadata"].get("ownerReferences") for element in result}[
        "DaemonSet shop/daemonset"
    ]
    assert owner == [{"kind": "DaemonSet", "name": "daemonset", "controller": True}]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds nothing, and no pod"),
        ("kind: Service\nmetadata: {name: s}", "holds Service, and no pod"),
        ("a: [", "is neither YAML nor JSON"),
        ("kind: Pod\nmetadata: {name: p}", "Pod p has no spec.containers"),
        ("kind: Deployment\nspec: {template: 5}", "Deployment unnamed has no spec.template.spec.containers"),
        ("kind: Pod\nspec: {containers: {}}", "Pod unnamed has no spec.containers"),
    ],
)
def test_bad_file_is_reported(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(text)
    with pytest.raises(CommandError, match=says.replace(".", r"\.")) as caught:
        pod_file.read(str(path), "default")
    assert caught.value.exit_code == USAGE


async def test_bad_amount_is_reported(tmp_path: Path) -> None:
    bad = {"kind": "Pod", **pod("bad", {"cpu": "many"})}
    with pytest.raises(CommandError, match="Pod default/bad cannot be understood"):
        await _run(_cluster(), str(_write(tmp_path, bad)))


def test_items_take_the_kind_of_their_list(tmp_path: Path) -> None:
    """The API server omits the kind in a PodList; an object with a malformed kind is ignored."""
    item = {key: value for key, value in pod("web", cpu="1").items() if key != "kind"}
    (given,) = pod_file.read(str(_write(tmp_path, {"kind": "PodList", "items": [item]}, {"kind": []})), "default")
    assert given.title == "Pod default/web"


def test_names_and_files_are_distinguished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").write_text("")
    assert [pod_file.is_file(entry) for entry in ("-", "plain", "./x", "x.yaml", "x.json")] == [True] * 5
    assert [pod_file.is_file(item) for item in ("web-1", "x\0", "x" * 5000)] == [False] * 3


async def test_quotas_are_simulated(written: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The cluster state of plugins is read, too: a quota without a rest rejects the pod on every node."""
    quota = {
        "metadata": {"name": "team", "namespace": "default", "uid": "q"},
        "spec": {"min": {"cpu": "12", "memory": "100Gi"}, "max": {"cpu": "12", "memory": "100Gi"}},
    }
    there = pod("other", {"cpu": "5"}, node="cold", scheduled=-10)
    objects = _cluster(f"{HEAD}plugins: [{{name: CapacityScheduling}}, {LOAD_AWARE}]\n", there)
    objects.put("/apis/scheduling.x-k8s.io/v1alpha1/elasticquotas/team", quota)
    await _run(objects, written, "-o", "json")
    (simulated,) = json.loads(capsys.readouterr().out)["pods"]
    refusals = [node["refusals"][0] for node in simulated["nodes"]]
    assert [refusal["plugin"] for refusal in refusals] == ["CapacityScheduling"] * 3
    assert "default/team" in refusals[0]["reason"]


async def test_pod_itself_is_not_charged(capsys: pytest.CaptureFixture[str]) -> None:
    """A pod of the cluster that fills its quota is evaluated as if it did not: it passes."""
    quota = {
        "metadata": {"name": "team", "namespace": "default", "uid": "q"},
        "spec": {"min": {"cpu": "12", "memory": "100Gi"}},
    }
    there = pod("web", {"cpu": "10", "memory": "10Gi"}, node="cold", scheduled=-10)
    objects = _cluster(f"{HEAD}plugins: [{{name: CapacityScheduling}}]\n", there)
    objects.put("/apis/scheduling.x-k8s.io/v1alpha1/elasticquotas/team", quota)
    await _run(objects, "web", "-o", "json")
    (simulated,) = json.loads(capsys.readouterr().out)["pods"]
    assert [node["passes"] for node in simulated["nodes"]] == [True, True, True]


async def test_missing_kind_is_reported(written: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A cluster that does not know quotas has none, and the output says which CRD is missing."""
    objects = _cluster(f"{HEAD}plugins: [{{name: CapacityScheduling}}]\n")
    objects.fails["LIST /apis/scheduling.x-k8s.io"] = ApiError(404, "NotFound", "no such kind")
    await _run(objects, written)
    (line,) = [line for line in _lines(capsys) if "does not know ElasticQuotas" in line]
    assert "elasticquotas.scheduling.x-k8s.io" in line
    objects.fails["LIST /apis/scheduling.x-k8s.io"] = ApiError(403, "Forbidden", "no")
    await _run(objects, written)
    assert any("may not list ElasticQuotas: the simulation goes without them" in line for line in _lines(capsys))
    objects.fails["LIST /apis/scheduling.x-k8s.io"] = ApiError(400, "BadRequest", "no")
    with pytest.raises(ApiError):
        await _run(objects, written)
