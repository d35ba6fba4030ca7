"""`-o name`, `-o jsonpath=...` and `-o custom-columns=...`, as of kubectl."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from kubectl_headroom import output
from kubectl_headroom.__main__ import main
from kubectl_headroom.errors import FAILED, USAGE, CommandError
from kubectl_headroom.jsonpath import Template, TemplateError
from tests.kubectl_headroom import recording
from tests.kubectl_headroom.quota_site import cluster, story
from tests.kubectl_headroom.served import CONFIG, serving
from tools.devcluster.binaries import Binaries


def _node(name: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    metadata = {"name": name, "labels": {"a.b/c": "x"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, **fields}


NODES: Final = [
    _node(
        "a",
        nothing=None,
        share=95.0,
        half=0.5,
        large=1234567.5,
        small=0.00001,
        count=3,
        ready=True,
        rows=[1, 2, [3]],
        map={"z": 1, "b": "<&>", "u": "ä"},
        dotted={"a.b": "dot"},
        taints=[{"key": "x", "value": 1}, {"key": "y", "value": 2}, {"value": 3}],
    ),
    _node("b", count=5, taints=[]),
]
DATA: Final = {"apiVersion": "v1", "items": NODES, "kind": "List", "metadata": {"resourceVersion": ""}}
TEMPLATES: Final = {
    "{.kind}": "List",
    "{$.kind}|{@.kind}": "List|List",
    ".kind a}b": ".kind a}b",
    "{ .items[0] .count }": "3",
    "{.items[*].nothing}": "null",
    "{.items[0].share} {.items[0].half} {.items[0].large} {.items[0].small}": "95 0.5 1.2345675e+06 1e-05",
    "{.items[0].ready}{1.50}{3}{-2}{true}": "true1.53-2true",
    "{.items[0].rows}{.items[0].map}": '[1,2,[3]]{"b":"\\u003c\\u0026\\u003e","u":"ä","z":1}',
    "{.items[0].dotted['a.b']}|{.items[0].dotted.a\\.b}|{.items[0].metadata.labels['a\\.b/c']}": "|dot|x",
    "{.none.of['these']}{.items[0].taints.key}{.items[1].count.x}": "",
    '{range .items[*]}{.metadata.name}{"\\t"}{.count}{"\\n"}{end}': "a\t3\nb\t5\n",
    "{range .items[*]}[{range .taints[*]}({.key}){end}]{end}!": "[(x)(y)()][]!",
    "{range .none[*]}x{end}y": "y",
    "{.items[-1].count} {.items[0:2].count} {.items[::2].count} {.items[1:].count}": "5 3 5 3 5",
    "{.items[0,1].count} {.items[*]['count','half']} {.items.*.count}": "3 5 3 5 0.5 3 5",
    "{.items[0:0].count}{.items[0].rows[2][0]}": "3",
    "{..key}|{..metadata.name}": "x y|a b",
    "{.items[?(@.count>3)].metadata.name}": "b",
    "{.items[?(@.count<=3)].metadata.name}{.items[?(@.count>=4)].count}": "a5",
    "{.items[?(@.metadata.name!='a')].count}": "5",
    '{.items[*].taints[?(@.key=="x")].value}': "1",
    "{.items[0].taints[?(@.key)].value}": "1 2",
    "{.items[?(@.ready==true)].count}": "3",
    '{.items[?(@.metadata.name=="b)")].count}q': "q",
    "{.items[?(@.count==3)]..name}": "a",
    '{"it\'s"}{\'"a"\'}{"\\""}': 'it\'s"a""',
}
"""Templates and their results on `DATA`."""
WRONG: Final = {
    "{.items[": "unterminated array",
    "{.items[x]}": "invalid array index x",
    "{.items[?(@.count": "unterminated filter",
    "{.items[?(@.count)x": "unclosed array expect ]",
    "{.items[?(@.count=~3)]}": "unrecognized filter operator =",
    "{.items[?(@.taints[0].key=='x')].count}": "array index out of bounds: index 0, length 0",
    "{.kind": "unclosed action",
    "{#}": "unrecognized character in action: '#'",
    "{....x}": "invalid multiple recursive descent",
    "{end}": "not in range, nothing to end",
    "{foo}": "unrecognized identifier foo",
    "{.items[5].x}": "array index out of bounds: index 5, length 2",
    "{.items[-3].x}": "array index out of bounds: index -1, length 2",
    "{.items[1:3].x}": "array index out of bounds: index 2, length 2",
    "{.items[1:0].x}": "starting index 1 is greater than ending index 0",
    "{.items[::-1].x}": "step must be > 0",
    "{.items[0].count[0]}": "int is not array or slice",
    "{.items[0].count[?(@.x)]}": "int is not array or slice and cannot be filtered",
    '{.items[?(@.count=="3")].count}': "incompatible types for comparison",
    "{.items[?(@.ready<false)].count}": "incompatible types for comparison",
    "{.items[?(@.taints[*].value==1)].count}": "can only compare one element at a time",
}
"""Wrong templates, and those that do not fit `DATA`, with the fault."""


@pytest.mark.parametrize(("template", "result"), TEMPLATES.items())
def test_template_of_kubectl(template: str, result: str) -> None:
    assert Template.parse(template).render(DATA) == result


@pytest.mark.parametrize(("template", "fault"), WRONG.items())
def test_fault_of_a_template(template: str, fault: str) -> None:
    with pytest.raises(TemplateError) as refused:
        Template.parse(template).render(DATA)
    assert str(refused.value).startswith(fault)


COLUMNS: Final = "custom-columns=NAME:.metadata.name,N:nothing,C:{.count},R:.rows,M:.map,T:.taints[*].key"


@pytest.mark.cluster
def test_kubectl_prints_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kubectl has the same results, and rejects the same templates, on the same JSON."""
    nodes = {"name": "nodes", "singularName": "node", "namespaced": False, "kind": "Node", "verbs": ["get", "list"]}
    served = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
        "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [nodes]},
        "/api/v1/nodes": {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": NODES},
    }
    program = Binaries.find_or_build(["kubernetes"]).path("kubectl").as_posix()
    with serving(served) as (url, _):
        (tmp_path / "config").write_text(CONFIG % url)
        login = ["--kubeconfig", str(tmp_path / "config"), "--cache-dir", str(tmp_path / "cache")]

        def kubectl(form: str) -> str | None:
            command = [program, *login, "get", "nodes", "-o", form]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            return None if done.returncode else done.stdout

        assert {template: kubectl(f"jsonpath={template}") for template in TEMPLATES} == TEMPLATES
        assert [template for template in WRONG if kubectl(f"jsonpath={template}") is not None] == []
        capsys.readouterr()
        output.show(DATA, COLUMNS)
        assert (kubectl(COLUMNS) or "").split() == capsys.readouterr().out.split()


def test_custom_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """Each object is a row; a missing value is <none>, several are joined, and paths need no braces."""
    output.show(DATA, COLUMNS)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["NAME", "N", "C", "R", "M", "T"],
        ["a", "<nil>", "3", "[1", "2", "[3]]", "map[b:<&>", "u:ä", "z:1]", "x,y"],
        ["b", "<none>", "5", "<none>", "<none>", "<none>"],
    ]
    output.show(DATA, COLUMNS, headers=False)
    assert capsys.readouterr().out.split()[0] == "a"


def test_values_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters of the data are escaped; those of the template are printed."""
    data = {"kind": "NodeUsage", "metadata": {"name": "a\x1b[2J\n"}}
    for form in ('jsonpath={.metadata.name}{"\\n"}', "custom-columns=N:.metadata.name", "name"):
        output.show(data, form)
        assert capsys.readouterr().out.endswith("a\\x1b[2J\\n\n")
    output.show(data, "jsonpath={.metadata}")
    assert capsys.readouterr().out == '{"name":"a\\u001b[2J\\n"}'


def test_template_that_does_not_fit() -> None:
    for form in ("jsonpath={.items[7]}", "custom-columns=A:.metadata.name[0]"):
        with pytest.raises(CommandError, match="error executing ") as refused:
            output.show(DATA, form)
        assert refused.value.exit_code == USAGE


def _run(folder: Path, line: str, form: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run a command on the recorded nodes and the quotas of two teams; its exit code and output."""
    api = cluster(*story())
    recording.put_recorded(api)
    with serving(api.objects) as (url, _):
        (folder / "config").write_text(CONFIG % url)
        login = [] if line.startswith(("config check", "version")) else ["--kubeconfig", str(folder / "config")]
        code = main([*line.replace("FILE", _config(folder)).split(), "-o", form, *login])
    return code, capsys.readouterr().out


def _config(folder: Path) -> str:
    (folder / "new.json").write_text('{"enable": true}')
    return str(folder / "new.json")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("top", "NodeUsageList"),
        ("top pods -A", "PodUsageList"),
        ("explain node web-1", "NodeExplanation"),
        ("explain pod b2 -n b", "PodExplanation"),
        ("explain quota qb -n b", "QuotaAccount"),
        ("quota", "QuotaReportList"),
        ("quota verify", "QuotaVerification"),
        ("shadow", "ShadowAccountList"),
        ("simulate pod b2 -n b", "PodSimulation"),
        ("config check FILE", "ConfigReview"),
        ("config diff FILE", "ConfigDiff"),
        ("doctor", "Doctor"),
        ("version", "Version"),
    ],
)
def test_documents_are_objects(line: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each document has apiVersion and kind; a list has items, each with apiVersion, kind and its name."""
    code, out = _run(tmp_path, line, "json", capsys)
    document = json.loads(out)
    assert code in {0, FAILED}
    assert (document["apiVersion"], document["kind"]) == ("headroom.dev/v1", kind)
    assert kind.endswith("List") == ("items" in document)
    for item in document.get("items", ()):
        assert (item["apiVersion"], item["kind"]) == ("headroom.dev/v1", kind.removesuffix("List"))
        assert item["metadata"]["name"]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("top nodes web-1 web-2", ["node/web-1", "node/web-2"]),
        ("top pods cart -n shop", ["pod/cart"]),
        ("explain node web-1", ["node/web-1"]),
        ("explain pod b2 -n b", ["pod/b2"]),
        ("explain quota qb -n b", ["elasticquota.scheduling.x-k8s.io/qb"]),
        ("quota", ["elasticquota.scheduling.x-k8s.io/qa", "elasticquota.scheduling.x-k8s.io/qb"]),
        ("shadow", []),
    ],
)
def test_names_are_those_of_kubectl(
    line: str, names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(tmp_path, line, "name", capsys) == (0, "".join(f"{name}\n" for name in names))


@pytest.mark.parametrize("line", ["doctor", "version", "config check FILE", "simulate pod b2 -n b"])
def test_document_without_a_name(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(tmp_path, line, "name", capsys) == (USAGE, "")


def test_template_of_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = "custom-columns=NAME:.metadata.name,CPU:.mid.cpuMilli"
    assert _run(tmp_path, "top nodes web-1 --no-headers", columns, capsys) == (0, "web-1   6500\n")
    assert _run(tmp_path, "quota", "jsonpath={.items[?(@.name=='qb')].pendingPods}", capsys) == (0, "1")
