"""`kubectl headroom profile`: the profiles that match a pod, its change, and the pods of each profile."""

import json
from pathlib import Path

import pytest

from crds.cluster_colocation_profile import PATH
from headroom.kube import paths
from kubectl_headroom.__main__ import main
from kubectl_headroom.profile.command import change
from kubectl_headroom.simulate.pod_file import GivenPod
from tests.kubectl_headroom.served import CONFIG, serving
from tests.manager.profiles.made import CLASSES, Json, known, made, pod

NAMESPACE = "team-a"
SELECTED = {"namespaceSelector": {"matchLabels": {"team": "a"}}, "selector": {"matchLabels": {"kind": "report"}}}
MID = {**SELECTED, "priorityClassName": "koord-mid", "qosClass": "LS"}


def _pod(name: str = "web", **labels: str) -> Json:
    made_pod = pod(labels=labels)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        **made_pod,
        "metadata": {**made_pod["metadata"], "name": name, "namespace": NAMESPACE},
    }


def _cluster(*pods: Json) -> dict[str, Json]:
    objects = {f"{PATH}/{name}": made(name, **spec) for name, spec in (("mid", MID), ("none", {"qosClass": "X"}))}
    classes = {
        f"{paths.PRIORITY_CLASSES}/{name}": {"metadata": {"name": name}, "value": value}
        for name, value in CLASSES.items()
    }
    namespace = {"metadata": {"name": NAMESPACE, "labels": {"team": "a"}}}
    return {
        **objects,
        **classes,
        f"/api/v1/namespaces/{NAMESPACE}": namespace,
        **{f"/api/v1/pods/{item['metadata']['name']}": item for item in pods},
        **{f"/api/v1/namespaces/{NAMESPACE}/pods/{item['metadata']['name']}": item for item in pods},
    }


def _run(folder: Path, objects: dict[str, Json], *words: str) -> int:
    with serving(objects) as (url, _):
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(CONFIG % url)
        return main(["profile", *words, "--kubeconfig", str(kubeconfig)])


def test_explain_shows_matches_and_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The profile that matches, the reason of each other one, and the difference of the pod."""
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(_pod(kind="report")))
    assert _run(tmp_path, _cluster(), "explain", "-f", str(file)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Pod {NAMESPACE}/web"
    rows = [" ".join(line.split()) for line in lines[1:5]]
    assert rows[1] == "headroom.dev/tier=mid no label of the namespace"
    assert rows[2] == "mid yes"
    assert rows[3].startswith("none no not in force: spec.qosClass: must be one of LSE")
    assert "+    koordinator.sh/qosClass: LS" in lines
    assert "+        kubernetes.io/mid-cpu: '500'" in lines
    assert "-        cpu: 500m" in lines


def test_explain_of_a_running_pod_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pod that no profile selects is unchanged; the reason names the selector and the labels."""
    assert _run(tmp_path, _cluster(_pod(kind="web")), "explain", "-n", NAMESPACE, "--pod", "web", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "ProfileExplanation"
    (mid,) = [match for match in document["profiles"] if match["name"] == "mid"]
    assert mid == {"name": "mid", "matches": False, "why": "spec.selector does not select labels kind=web"}
    assert document["before"] == document["after"]


def test_list_counts_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each profile has the number of pods that it selects and that have not ended, and of Mid pods among them."""
    mid = known(made("mid", **MID)).apply("mid", _pod("b", kind="report")).pod
    ended = {**_pod("c", kind="report"), "status": {"phase": "Succeeded"}}
    pods = (_pod("a", kind="report"), dict(mid), ended, _pod("d", kind="web"))
    assert _run(tmp_path, _cluster(*pods), "list", "-o", "wide") == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == ["NAME PRIORITYCLASS QOS IN FORCE PODS MID WHY NOT", "mid koord-mid LS yes 2 1"]
    assert lines[2].startswith("none - X no 0 0 spec.qosClass: must be one of")


def test_cluster_without_the_kind_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message has the command that defines the kind."""
    with serving({}, 404) as (url, _):
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(CONFIG % url)
        file = tmp_path / "pod.json"
        file.write_text(json.dumps(_pod()))
        assert main(["profile", "explain", "-f", str(file), "--kubeconfig", str(kubeconfig)]) == 1
    assert "kubectl apply --server-side -f charts/headroom/crds" in capsys.readouterr().err


def test_namespaces_without_profiles() -> None:
    """The label and profiles change no pod of kube-system and of the namespace of Headroom."""
    for namespace in ("kube-system", "headroom-system"):
        source = GivenPod("Pod", {**pod(), "metadata": {"namespace": namespace}})
        result = change(known(made("all", labels={"a": "b"})), source, {"headroom.dev/tier": "mid"}, "headroom-system")
        assert result.before == result.after
        assert {match.matches for match in result.matches} == {False}


def test_label_of_the_namespace_applies_first() -> None:
    """In a Mid namespace the pod is Mid before the profiles apply, and a second translation changes nothing."""
    source = GivenPod("Pod", {**pod(), "metadata": {"namespace": "mid"}})
    result = change(known(made("all", probability=30, labels={"a": "b"})), source, {"headroom.dev/tier": "mid"}, "hr")
    assert [(match.name, match.matches, match.why) for match in result.matches] == [
        ("headroom.dev/tier=mid", True, ""),
        ("all", True, "changes 30 % of the pods that it matches"),
    ]
    assert result.after["spec"]["priorityClassName"] == "koord-mid"
    assert result.after["metadata"]["labels"] == {"a": "b"}
