"""Traces of pods: agents' databases and their exports."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from agent import database
from agent.pod_metadata import NAME, PodMetadataStore
from agent.pods import PodRef
from agent.samples import CPU, MEMORY, NODE, SYS, Sample
from agent.tsdb.tsdb import Tsdb
from crds.priority import PriorityBand
from headroom.backtest.sources import Options, files, grid
from headroom.backtest.trace import PodLifetime, Resource, TraceError
from tests.agent import made
from tests.headroom.backtest.pod_files import pod, pods_file
from tests.headroom.backtest.trace_files import MIB, trace, traces, write

START = 1_700_000_100.0  # a multiple of 300
GIB = 1 << 30
CPU_ONLY: tuple[Resource, ...] = ("cpu",)


def agent_database(folder: Path, pods: Sequence[PodRef], node: str = "n1", minutes: int = 30) -> Path:
    """A database of an agent: a tick a minute in which each pod uses 0.25 cores, `late` from the tenth minute on."""
    folder.mkdir(parents=True, exist_ok=True)
    with Tsdb.open(folder / "agent.db") as store:
        for minute in range(minutes):
            now = START + 60 * minute
            there = [one for one in pods if one.uid != "late" or minute >= 10]
            names = [NODE, SYS, *(one.uid for one in there)]
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


def test_database_is_read(tmp_path: Path) -> None:
    """Prod pods with what they request, else their limit; each is there from its first sample to its last."""
    cpu, memory = traces("db", agent_database(tmp_path, PODS))
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
    found = trace("db", agent_database(tmp_path, PODS) / "agent.db", options=Options(CPU_ONLY, basis="limits"))
    assert (found.names, found.limits.tolist()) == (("shop/late",), [2.0])


def test_databases_of_nodes(tmp_path: Path) -> None:
    """Each database is a machine; two of one node are one machine, their times put together."""
    web = made.pod("web")
    first = agent_database(tmp_path / "a", [web], "n2")
    second = agent_database(tmp_path / "b", [made.pod("other")], "n1", minutes=10)
    found = trace("db", first, second, first)
    assert (found.machines, found.names) == (("n1", "n2"), ("shop/other", "shop/web"))
    assert found.lifetimes == (PodLifetime(0, 0, 0, 2), PodLifetime(1, 1, 0, 6))
    assert found.source == f"{first} and 2 more"


def test_window_of_a_database(tmp_path: Path) -> None:
    """Of a window, pods that were there, at the steps that are in it."""
    folder = agent_database(tmp_path, PODS)
    found = trace("db", folder, options=Options(CPU_ONLY, until=START + 600))
    assert (found.names, found.steps) == (("shop/web",), 2)
    found = trace("db", folder, options=Options(CPU_ONLY, since=START + 300, last_seconds=1200.0))
    assert (found.times[0], found.lifetimes) == (START + 600, (PodLifetime(0, 0, 0, 4), PodLifetime(1, 0, 0, 4)))
    with pytest.raises(TraceError, match=r"has no pod's use of five minutes in the requested time$"):
        trace("db", folder, options=Options(CPU_ONLY, since=START + 86400))


def test_database_of_an_agent_that_has_just_begun(tmp_path: Path) -> None:
    """Nobody is told of a time that nobody asked for."""
    folder = agent_database(tmp_path, [], minutes=0)
    with pytest.raises(TraceError, match=r"has no pod's use of five minutes$"):
        trace("db", folder, options=Options(CPU_ONLY))


def test_last_hours_leave_the_gone_out(tmp_path: Path) -> None:
    """Pods, and machines, that were gone before the last hours are not among them."""
    gone = agent_database(tmp_path / "a", [made.pod("gone")], "n1", minutes=10)
    here = agent_database(tmp_path / "b", [made.pod("here", workload="shop/Pod/here")], "n2")
    found = trace("db", gone, here, options=Options(CPU_ONLY, last_seconds=900.0))
    assert (found.names, found.machines, found.lifetimes) == (("shop/here",), ("n2",), (PodLifetime(0, 0, 0, 3),))
    assert (found.workloads, found.limits.tolist(), found.usage.shape) == (("shop/Pod/here",), [1.0], (3, 1))


def test_database_of_an_older_agent(tmp_path: Path) -> None:
    """What an older agent did not keep comes from a file of pods, by uid; without one it says so."""
    folder = agent_database(tmp_path / "n7", PODS[:1])
    with Tsdb.open(folder / "agent.db") as store:
        store.save_checkpoints({})
    with pytest.raises(TraceError) as caught:
        trace("db", folder)
    assert "1 of 1 pods left out, nothing is known of them but their use: web." in str(caught.value)
    assert "Give --pods FILE, with kubectl get pods --all-namespaces -o json" in str(caught.value)
    file = pods_file(tmp_path / "pods.json", pod("shop/web", {"cpu": "750m"}))
    found = trace("db", folder, options=Options(CPU_ONLY, pods=(file,)))
    assert (found.names, found.machines, found.limits.tolist()) == (("shop/web",), ("n7",), [0.75])
    assert found.workloads == ("shop/ReplicaSet/web",)


@pytest.mark.parametrize("kind", ["db", "trace"])
def test_pods_of_the_cgroup_tree(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An agent without a cluster knows no requests: the file of pods says them, and without it that is said."""
    place = agent_database(tmp_path / "data", [made.pod("web", 0, 0)])
    if kind == "trace":
        place = tmp_path / "export"
        place.mkdir()
        database.main(["export", "--data-dir", str(tmp_path / "data"), "--to", str(place)])
        capsys.readouterr()
    with pytest.raises(TraceError, match=r"without a request or limit for cpu: shop/web\. Give --pods FILE"):
        trace(kind, place)
    file = pods_file(tmp_path / "pods.json", pod("shop/web", {"cpu": "750m"}, node="elsewhere"))
    found = trace(kind, place, options=Options(CPU_ONLY, pods=(file,)))
    assert (found.machines, found.limits.tolist()) == (("n1",), [0.75])


def test_damaged_names_are_told(tmp_path: Path) -> None:
    """Names that cannot be read are noted; the file of pods makes up for them."""
    folder = agent_database(tmp_path, PODS[:1])
    with Tsdb.open(folder / "agent.db") as store:
        store.save_checkpoints({NAME: b"?"})
    file = pods_file(tmp_path / "pods.json", pod("shop/web"))
    found = trace("db", folder, options=Options(CPU_ONLY, pods=(file,)))
    assert "agent.db: the names of its pods cannot be read: a checkpoint has at least 8 bytes" in found.notes[0]


def test_no_database_is_told(tmp_path: Path) -> None:
    """What is no database is refused in one sentence that names it."""
    with pytest.raises(TraceError, match="nowhere"):
        trace("db", tmp_path / "nowhere")
    write(tmp_path / "agent.db", "ts,vm1\n")
    with pytest.raises(TraceError, match=r"agent\.db"):
        trace("db", tmp_path)


def test_empty_database_is_told(tmp_path: Path) -> None:
    """A database without samples says that there is nothing."""
    Tsdb.open(tmp_path / "agent.db").close()
    with pytest.raises(TraceError, match="has no pod's use"):
        trace("db", tmp_path)


@pytest.mark.parametrize("kind", ["db", "trace"])
def test_export_is_the_same(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What `headroom-agent db export` wrote gives the trace that the database itself gives."""
    folder, target = agent_database(tmp_path / "data", PODS), tmp_path / "export"
    target.mkdir()
    assert database.main(["export", "--data-dir", str(folder), "--to", str(target)]) == 0
    assert "pods.csv: 4 rows" in capsys.readouterr().err
    for ours, theirs in zip(traces(kind, target), traces("db", folder), strict=True):
        assert (ours.names, ours.limits.tolist(), ours.lifetimes) == (
            theirs.names,
            theirs.limits.tolist(),
            theirs.lifetimes,
        )
        assert (ours.machines, ours.workloads, ours.notes) == (theirs.machines, theirs.workloads, theirs.notes)
        np.testing.assert_allclose(ours.usage, theirs.usage)


def test_exports_of_nodes(tmp_path: Path) -> None:
    """A folder of exports is read as one trace, a machine each; tables alone need a file of pods."""
    for node in ("n1", "n2"):
        write(tmp_path / node / "cpu_millicores.csv.gz", f"ts,a-{node}\n{START:.0f},100\n{START + 300:.0f},200\n")
    with pytest.raises(TraceError, match="has no trace"):
        trace("trace", tmp_path)
    known = [pod(f"shop/a-{node}", {"cpu": "2"}) for node in ("n1", "n2")]
    file = pods_file(tmp_path / "pods.json", *known)
    found = trace("trace", tmp_path, options=Options(CPU_ONLY, pods=(file,)))
    assert (found.machines, found.names) == (("n1", "n2"), ("shop/a-n1", "shop/a-n2"))
    assert found.usage.tolist() == [[pytest.approx(0.1)] * 2, [pytest.approx(0.2)] * 2]


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
    """A wrong list of pods is refused with line and column."""
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
    found = trace("trace", tmp_path)
    assert found.usage[:, 0] == pytest.approx([0.01, 0.03, 0.03, 0.03, 0.03, 0.04])
    assert found.usage[:5, 1] == pytest.approx([0.01, 0.01, 0.04 / 3, 0.05 / 3, 0.02])
    assert np.isnan(found.usage[5, 1])
    assert found.notes == (
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
    """A file of pods that is none is refused by its name, with the pod."""
    if not text.strip():
        monkeypatch.setattr(files, "LARGEST", 1000)
    (tmp_path / "pods.json").write_text(text)
    write(tmp_path / "cpu_millicores.csv", f"ts,a\n{START:.0f},100\n")
    with pytest.raises(TraceError) as caught:
        trace("trace", tmp_path, options=Options(CPU_ONLY, pods=(str(tmp_path / "pods.json"),)))
    assert f"{tmp_path / 'pods.json'}: " in str(caught.value)
    assert says in str(caught.value)


def test_samples_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More samples than fit are refused while they are read."""
    folder = agent_database(tmp_path, PODS)
    monkeypatch.setattr(grid, "MOST_VALUES", 10)
    with pytest.raises(TraceError, match="more than 10 samples do not fit; shorten the time"):
        trace("db", folder)
