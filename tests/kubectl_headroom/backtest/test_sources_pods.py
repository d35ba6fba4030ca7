import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from agent import database
from agent.pod_metadata import PodMetadataStore
from agent.pods import PodRef
from agent.samples import CPU, MEMORY, NODE, SYS, Sample
from agent.tsdb.tsdb import Tsdb
from crds.priority import PriorityBand
from kubectl_headroom.backtest.sources import Options, files, grid
from kubectl_headroom.backtest.trace import PodLifetime, Resource, TraceError
from tests.agent import made
from tests.kubectl_headroom.backtest.pod_files import pod, pods_file
from tests.kubectl_headroom.backtest.trace_files import MIB, machines, trace, traces, write

START = 1_700_000_100.0  # a multiple of 300
GIB = 1 << 30
CPU_ONLY: tuple[Resource, ...] = ("cpu",)


def agent_database(folder: Path, pods: Sequence[PodRef], node: str = "n1", minutes: int = 30) -> Path:
    """A database of an agent: a tick a minute in which each pod uses 0.25 cores, `late` from the tenth minute on."""
    folder.mkdir(parents=True, exist_ok=True)
    with Tsdb.open(folder / "agent.db") as store:
        for minute in range(minutes):
            now = START + 60 * minute
            there = [pod for pod in pods if pod.uid != "late" or minute >= 10]
            names = [NODE, SYS, *(entry.uid for entry in there)]
            tick = [Sample(CPU, name, now, 0.25) for name in names]
            store.append(now, [*tick, *(Sample(MEMORY, name, now, 64.0 * MIB) for name in names)])
        identities = PodMetadataStore(node)
        identities.update(START, pods)
        store.save_checkpoints(identities.checkpoint())
    return folder


PODS = (
    made.pod("web", 500, workload="shop/ReplicaSet/web"),
    made.pod("late", 0, 0, limits={"cpu": 2000, "memory": GIB}),
    made.pod("batch", 500, band=PriorityBand.BATCH),
    made.pod("free", 0, 0),
)
NOTES = (
    "1 of 4 pods left out, not Prod: shop/batch.",
    "1 of 4 pods left out, without a request or limit for cpu: shop/free.",
)


def exported(folder: Path, pods: Sequence[PodRef], node: str = "n1", minutes: int = 30) -> Path:
    """The folder that `headroom-agent db export` writes of such a database."""
    data = agent_database(folder / "data", pods, node, minutes)
    assert database.main(["export", "--data-dir", str(data), "--to", f"{folder / 'export'}/"]) == 0
    return folder / "export"


def test_export_is_read(tmp_path: Path) -> None:
    """Prod pods with their requests, else their limits; each lives from its first sample to its last."""
    cpu, memory = traces("trace", exported(tmp_path, PODS))
    assert (cpu.names, cpu.limits.tolist()) == (("shop/late", "shop/web"), [2.0, 0.5])
    assert memory.limits.tolist() == [float(GIB), float(GIB)]
    assert cpu.times.tolist() == [START + 300 * step for step in range(6)]
    assert (cpu.machines, cpu.lifetimes) == (("n1",), (PodLifetime(0, 0, 2, 6), PodLifetime(1, 0, 0, 6)))
    assert np.isnan(cpu.usage[:2, 0]).all()
    assert cpu.usage[2:, 0].tolist() == [0.25] * 4
    assert memory.usage[:, 1].tolist() == [64.0 * MIB] * 6
    assert cpu.workloads == ("", "shop/ReplicaSet/web")
    assert cpu.notes == NOTES


def test_limits_may_be_the_basis(tmp_path: Path) -> None:
    """With basis limits, only pods that have a limit count."""
    result = trace("trace", exported(tmp_path, PODS), options=Options(CPU_ONLY, basis="limits"))
    assert (result.names, result.limits.tolist()) == (("shop/late",), [2.0])


def test_nodes_are_machines(tmp_path: Path) -> None:
    """Each export is a machine; two of one node are one machine, their times put together."""
    first = exported(tmp_path / "a", [made.pod("web")], "n2")
    second = exported(tmp_path / "b", [made.pod("other")], "n1", minutes=10)
    result = trace("trace", first, second, first)
    assert (result.machines, result.names) == (("n1", "n2"), ("shop/other", "shop/web"))
    assert result.lifetimes == (PodLifetime(0, 0, 0, 2), PodLifetime(1, 1, 0, 6))
    assert result.source == f"{first} and 2 more"


def test_window_of_an_export(tmp_path: Path) -> None:
    """A window has its pods, at its steps."""
    folder = exported(tmp_path, PODS)
    result = trace("trace", folder, options=Options(CPU_ONLY, until=START + 600))
    assert (result.names, result.steps) == (("shop/web",), 2)
    result = trace("trace", folder, options=Options(CPU_ONLY, since=START + 300, last_seconds=1200.0))
    assert (result.times[0], result.lifetimes) == (START + 600, (PodLifetime(0, 0, 0, 4), PodLifetime(1, 0, 0, 4)))
    with pytest.raises(TraceError, match="has no rows, or none in the requested time"):
        trace("trace", folder, options=Options(CPU_ONLY, since=START + 86400))


def test_last_hours_leave_the_gone_out(tmp_path: Path) -> None:
    """Pods, and machines, that were gone before the last hours are not among them."""
    gone = exported(tmp_path / "a", [made.pod("gone")], "n1", minutes=10)
    here = exported(tmp_path / "b", [made.pod("here", workload="shop/Pod/here")], "n2")
    result = trace("trace", gone, here, options=Options(CPU_ONLY, last_seconds=900.0))
    assert (result.names, result.machines, result.lifetimes) == (("shop/here",), ("n2",), (PodLifetime(0, 0, 0, 3),))
    assert (result.workloads, result.limits.tolist(), result.usage.shape) == (("shop/Pod/here",), [1.0], (3, 1))


@pytest.mark.parametrize(("request_milli", "named"), [(0, True), (500, False)], ids=["no requests", "no names"])
def test_file_of_pods_has_their_requests(tmp_path: Path, request_milli: int, named: bool) -> None:  # noqa: FBT001
    """An agent without a cluster knows no requests, an older one no names: both are in the file of pods."""
    folder = exported(tmp_path, [made.pod("web", request_milli, 0)])
    if not named:
        (folder / "pods.csv").write_text(HEADER + "web,n1,,,,,,,\n")
    with pytest.raises(TraceError, match=r"without a request or limit for cpu: .*web\. Give --pods FILE"):
        trace("trace", folder)
    file = pods_file(tmp_path / "pods.json", pod("shop/web", {"cpu": "750m"}, node="elsewhere"))
    result = trace("trace", folder, options=Options(CPU_ONLY, pods=(file,)))
    assert (result.names, result.machines, result.limits.tolist()) == (("shop/web",), ("n1",), [0.75])
    assert result.workloads == ("shop/ReplicaSet/web",)


def test_machines_have_no_file_of_pods(tmp_path: Path) -> None:
    """A folder of machines has sizes of its own: a file of pods beside them is refused."""
    folder = machines(tmp_path, ["ts,vm1", f"{START:.0f},1"], {"1": "1,1,1"})
    with pytest.raises(TraceError, match=r"has the sizes of its machines in vms\.csv; leave --pods out"):
        trace("trace", folder, options=Options(CPU_ONLY, pods=("pods.json",)))


def test_exports_of_nodes(tmp_path: Path) -> None:
    """A folder of exports is read as one trace, a machine each; tables alone need a file of pods."""
    for node in ("n1", "n2"):
        write(tmp_path / node / "cpu_millicores.csv.gz", f"ts,a-{node}\n{START:.0f},100\n{START + 300:.0f},200\n")
    with pytest.raises(TraceError, match="has no trace"):
        trace("trace", tmp_path)
    stated_pods = [pod(f"shop/a-{node}", {"cpu": "2"}) for node in ("n1", "n2")]
    file = pods_file(tmp_path / "pods.json", *stated_pods)
    result = trace("trace", tmp_path, options=Options(CPU_ONLY, pods=(file,)))
    assert (result.machines, result.names) == (("n1", "n2"), ("shop/a-n1", "shop/a-n2"))
    assert result.usage.tolist() == [[pytest.approx(0.1)] * 2, [pytest.approx(0.2)] * 2]


HEADER = "uid,node,pod,workload,class,cpu_request_millicores,cpu_limit_millicores,mem_request_mib,mem_limit_mib\n"


@pytest.mark.parametrize(
    ("pods", "says"),
    [
        ("uid,node\n", "pods.csv: has no column 'pod'; it needs uid, node, pod"),
        (HEADER + ",n,p,,prod,1,1,1,1\n", "pods.csv: line 2 has no uid"),
        (HEADER + "a,n,p,,prod,x,1,1,1\n", "line 2, column 'cpu_request_millicores': 'x' must be a number"),
        (HEADER + "a,n,p,,prod,-1,1,1,1\n", "'-1' must be a number of at least 0, or empty"),
        (HEADER + "a,n,p,,prod,,,,\n", "without a request or limit for cpu: p."),
        (HEADER, "nothing is known of them but their use: a."),
    ],
)
def test_wrong_exports_are_refused(tmp_path: Path, pods: str, says: str) -> None:
    write(tmp_path / "cpu_millicores.csv", f"ts,a\n{START:.0f},100\n")
    write(tmp_path / "pods.csv", pods)
    with pytest.raises(TraceError) as caught:
        trace("trace", tmp_path)
    assert says in str(caught.value)


def test_gaps_of_pods(tmp_path: Path) -> None:
    """Gaps within a stay are filled; a pod that was measured for less than half of it is left out."""
    cells = ["10,10", "30,10", ",", ",", "30,20", "40,"]
    rows = [f"{START + 300 * number:.0f},{cell}" for number, cell in enumerate(cells)]
    write(tmp_path / "cpu_millicores.csv", "\n".join(["ts,a,b", *rows]))
    sparse = "\n".join(f"{START + 300 * number:.0f},{'5' if number in (0, 5) else ''}" for number in range(6))
    write(tmp_path / "x/cpu_millicores.csv", f"ts,c\n{sparse}\n")
    write(tmp_path / "pods.csv", HEADER + "a,n,a,,prod,25,,,\nb,n,b,,,,100,,\n")
    write(tmp_path / "x/pods.csv", HEADER + "c,m,c,,prod,5,,,\n")
    result = trace("trace", tmp_path)
    assert result.usage[:, 0] == pytest.approx([0.01, 0.03, 0.03, 0.03, 0.03, 0.04])
    assert result.usage[:5, 1] == pytest.approx([0.01, 0.01, 0.04 / 3, 0.05 / 3, 0.02])
    assert np.isnan(result.usage[5, 1])
    assert result.notes == (
        "1 of 3 pods left out, measured for less than half of their time: c.",
        "Gaps were filled linearly: 36 % of the cpu values.",
        "Pods used more cpu than their request in 45 % of the time.",
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is no JSON (Expecting value); it is written by kubectl get pods --all-namespaces -o json"),
        ("{", "is no JSON (Expecting property name"),
        ("[" * 100_000, "is no JSON (a number or its nesting has no end)"),
        ("9" * 5_000, "is no JSON (a number or its nesting has no end)"),
        ("[3]", "has a int, not a Pod"),
        ("7", "has a int, not a Pod"),
        (" " * 1001, "is longer than 0 million characters; give several shorter files"),
        (json.dumps({"kind": "List", "items": [{"kind": "Node"}]}), "has a Node, not a Pod"),
        (json.dumps(pod("shop/a", {"cpu": "lots"})), "pod shop/a: "),
        (json.dumps(pod("shop/a", {"cpu": "1e400"})), "pod shop/a: requests: cpu and memory must be below 1e308"),
        (json.dumps({"kind": "Pod", "metadata": []}), "pod without metadata: "),
        (json.dumps({"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": 3}}), "pod /a: "),
    ],
)
def test_wrong_pods_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: str) -> None:
    if not text.strip():
        monkeypatch.setattr(files, "LARGEST", 1000)
    (tmp_path / "pods.json").write_text(text)
    write(tmp_path / "cpu_millicores.csv", f"ts,a\n{START:.0f},100\n")
    with pytest.raises(TraceError) as caught:
        trace("trace", tmp_path, options=Options(CPU_ONLY, pods=(str(tmp_path / "pods.json"),)))
    assert f"{tmp_path / 'pods.json'}: " in str(caught.value)
    assert says in str(caught.value)


def test_samples_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [exported(tmp_path / node, [made.pod("web")], node) for node in ("n1", "n2")]
    monkeypatch.setattr(grid, "MOST_VALUES", 10)
    with pytest.raises(TraceError, match="more than 10 samples do not fit; shorten the time"):
        trace("trace", *nodes)
