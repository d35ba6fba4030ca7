"""The parts of the scheduler's benchmark: what takes turns, what the do-nothing extender says, what the table says."""

import json

import pytest

from headroom.runtime.http import Reply, Request
from scheduler_plugins.extender.wire import parse
from scheduler_plugins.plugins import PLUGINS
from tools.bench.scheduler import main, modes_of, turn
from tools.bench.scheduler_noop import Nothing, names
from tools.bench.scheduler_parts import NONE, NOTHING, SHORTLIST, WEIGHTED, Mode, configuration, mean_ms, profile
from tools.bench.scheduler_table import Run, lines, spread

POD = {"metadata": {"name": 'a "NodeNames":["x"]', "uid": "1"}, "spec": {}}
BODY = json.dumps({"Pod": POD, "Nodes": None, "NodeNames": ["n-1", "n-2", "n-3"]}, separators=(",", ":")).encode()


def _run(mode: Mode, per_second: float, number: int = 0, nodes: int = 1000) -> Run:
    return Run(nodes, number, mode, per_second, {"scheduler": 2.0, "etcd": 0.5}, 0.1, None)


def test_names_are_found() -> None:
    """The names are the last thing of a request, whatever the pod is called."""
    assert names(BODY) == [b'"n-1"', b'"n-2"', b'"n-3"']
    assert [name.decode().strip('"') for name in names(BODY)] == list(parse(BODY).names)


@pytest.mark.parametrize(("short", "kept"), [(0, 3), (2, 2), (8, 3)])
def test_nothing_answers(short: int, kept: int) -> None:
    """The do-nothing extender answers as kube-scheduler wants, and counts names per call."""
    nothing = Nothing(short)
    reply = json.loads(nothing.filter(Request("POST", "/filter", body=BODY)).body)
    assert reply["NodeNames"] == ["n-1", "n-2", "n-3"][:kept]
    assert reply["Error"] == ""
    assert reply["FailedNodes"] == reply["FailedAndUnresolvableNodes"] == {}
    scores = json.loads(nothing.prioritize(Request("POST", "/prioritize", body=BODY)).body)
    assert scores == [{"Host": name, "Score": 0} for name in ("n-1", "n-2", "n-3")]
    counted = nothing.pages()["GET", "/counts"](Request("GET", "/counts"))
    assert isinstance(counted, Reply)
    assert json.loads(counted.body)["filter names"] == 3


def test_rounds_turn_back() -> None:
    """Every second round goes backwards, and each begins and ends without an extender."""
    modes = modes_of([NONE, NOTHING, SHORTLIST, WEIGHTED], [4, 8], [None])
    first, second = turn(modes, 0), turn(modes, 1)
    assert [mode.kind for mode in (first[0], first[-1], second[0], second[-1])] == [NONE] * 4
    assert first[1:-1] == second[-2:0:-1]
    assert {mode.size for mode in first if mode.kind == SHORTLIST} == {4, 8}


def test_ratio_is_of_the_round() -> None:
    """A run is compared with the mean of the runs without extender of its own round."""
    none, ours = Mode(NONE), Mode(SHORTLIST)
    runs = [_run(none, 100.0), _run(ours, 110.0), _run(none, 120.0), _run(none, 10.0, 1), _run(ours, 5.0, 1)]
    header, plain, shortlist = lines(runs)
    ratio = header.index("ratio to no extender of the same round")
    assert shortlist[ratio] == "0.75 [0.50, 1.00]"
    assert plain[header.index("runs")] == "3"
    assert shortlist[header.index("budget")] == ">= 1.0 x no extender"
    assert {len(line) for line in (header, plain, shortlist)} == {len(header)}
    assert "2 / - / 0.5 / -" in shortlist


def test_shipped_share_is_the_base() -> None:
    """Among several shares of nodes, ratios are to the one that is shipped."""
    runs = [_run(Mode(NONE, percentage=100), 40.0), _run(Mode(NONE), 80.0)]
    header, every, shipped = lines(runs)
    ratio = header.index("ratio to no extender of the same round")
    assert (every[ratio], shipped[ratio]) == ("0.50 [0.50, 0.50]", "1.00 [1.00, 1.00]")


def test_spread_of_nothing() -> None:
    """Where nothing was measured there is a dash."""
    assert spread([], "{:.0f}") == "-"
    assert spread([3.0, 1.0, 2.0], "{:.0f}") == "2 [1, 3]"


def test_mean_of_histogram() -> None:
    """A histogram's mean is over all its series with the label, in milliseconds."""
    text = 'x_sum{verb="filter"} 2\nx_count{verb="filter"} 4\nx_sum{verb="prioritize"} 9\nx_count{verb="prioritize"} 1'
    assert mean_ms(text, "x", 'verb="filter"') == 500.0
    assert mean_ms(text, "y") is None


def test_settings_are_shipped_ones() -> None:
    """Kube-scheduler and the extender get what is shipped, with every plugin, and differ only in the mode."""
    plain, asked = configuration(Mode(NONE), "c", "u"), configuration(Mode(WEIGHTED), "c", "u")
    assert "extenders" not in plain
    assert asked["extenders"][0]["prioritizeVerb"] == "prioritize"
    assert "prioritizeVerb" not in configuration(Mode(SHORTLIST), "c", "u")["extenders"][0]
    assert configuration(Mode(NONE, percentage=5), "c", "u")["percentageOfNodesToScore"] == 5
    found = profile(Mode(SHORTLIST, 4))
    assert {part["name"] for part in found["plugins"]} >= set(PLUGINS)
    assert (found["mode"], found["shortlist"]["size"]) == ("shortlist", 4)


@pytest.mark.parametrize("flag", ["--modes=fast", "--nodes=0", "--rounds=0", "--sizes=x"])
def test_wrong_plan_is_refused(flag: str) -> None:
    """What cannot be measured is refused before a cluster is started."""
    with pytest.raises(SystemExit):
        main([flag])
