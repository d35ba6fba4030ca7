from cli.table import plain
from cli.top import nodes as top_nodes
from cli.top import pods as top_pods
from manager.explain.report import Amount
from tests.cli.recording import NOW, golden, named, recorded


def rows() -> list[top_nodes.NodeRow]:
    """The rows of the recorded nodes."""
    return top_nodes.node_rows(recorded("nodes"), recorded("nodeMetrics"), recorded("pods"), NOW)


def test_top_nodes_text() -> None:
    """The table of nodes: one of ours, one with another agent's old report, one that has not reported."""
    assert plain(top_nodes.COLUMNS, [top_nodes.cells(row) for row in rows()]) == golden("top_nodes.txt")


def test_top_pods_text() -> None:
    """The table of pods: bound and not ended; a Mid pod's request is its Mid resources."""
    found = top_pods.pod_rows(recorded("pods"), recorded("nodeMetrics"), NOW)
    assert plain(top_pods.COLUMNS, [top_pods.cells(row) for row in found]) == golden("top_pods.txt")


def test_ended_pods_request_nothing() -> None:
    """A Mid pod that has ended no longer counts as requested."""
    pods = recorded("pods")
    for pod in pods:
        pod["status"]["phase"] = "Failed"
    found = top_nodes.node_rows(recorded("nodes"), [], pods, NOW)
    assert {row.mid_requested for row in found} == {Amount(0, 0)}


def test_three_missing_reports_are_late() -> None:
    """A report counts as late when three in a row are missing."""
    by_name = {row.name: row for row in rows()}
    assert not top_nodes.late(by_name["web-1"].report)
    assert top_nodes.late(by_name["web-2"].report)
    assert not top_nodes.late(by_name["web-3"].report)


def test_hot_node_is_marked() -> None:
    """A node at 80 % or more of what it can allocate is red."""
    styles = {row.name: top_nodes.cells(row)[2].style for row in rows()}
    assert styles == {"web-1": "", "web-2": "red", "web-3": ""}


def test_json_has_units() -> None:
    """JSON carries plain numbers with their units in the names, and null for what is not known."""
    first, _, last = top_nodes.as_json(rows())
    assert first["mid"] == {"cpuMilli": 6500, "memoryBytes": 20 * 2**30}
    assert first["midRequested"] == {"cpuMilli": 3000, "memoryBytes": 4 * 2**30}
    assert last["usage"] == {"cpuMilli": None, "memoryBytes": None}
    pod = top_pods.as_json(top_pods.pod_rows([named("pods", "cart")], recorded("nodeMetrics"), NOW))[0]
    assert pod["usage"]["cpuMilli"] == 1200
    assert pod["band"] == "koord-prod"
