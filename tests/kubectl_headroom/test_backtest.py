import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crds.models import COMBINING, MODELS
from kubectl_headroom.__main__ import main
from kubectl_headroom.backtest import command
from kubectl_headroom.backtest.bar import Bar
from kubectl_headroom.backtest.report import Report
from kubectl_headroom.errors import UNAVAILABLE, USAGE
from tests.kubectl_headroom.backtest.trace_files import START, STEP, machines, steady, write
from tests.kubectl_headroom.test_terminal import Terminal

DAYS = 4
SERIES = 6
COMBINED = '{"model": "max", "of": [{"model": "sum-max"}, {"model": "nsigma-v1", "parameters": {"n": 1}}]}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six machines over four days, CPU alone: a daily rhythm, and noise."""
    numbers = np.random.default_rng(7)
    steps = np.arange(DAYS * 288)
    rhythm = 500 + 300 * np.sin(2 * np.pi * steps[:, None] / 288 + np.arange(SERIES))
    usage = np.clip(rhythm + numbers.normal(0, 60, rhythm.shape), 0, None).round().astype(int)
    names = [f"vm{number}" for number in range(SERIES)]
    rows = [f"{START + STEP * step},{','.join(map(str, usage[step]))}" for step in steps]
    place = tmp_path_factory.mktemp("trace") / "small"
    return machines(place, [f"ts,{','.join(names)}", *rows], dict.fromkeys(map(str, range(SERIES)), "2,4096,1.0"))


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    monkeypatch.setenv("HOME", str(tmp_path))


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert main(["backtest", *map(str, words)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def refused(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = USAGE) -> str:
    try:
        ended = main(["backtest", *map(str, words)])
    except SystemExit as error:
        ended = int(error.code or 0)
    said = capsys.readouterr()
    assert (ended, said.out) == (code, "")
    assert said.err.startswith("kubectl headroom: ")
    assert said.err.count("\n") == 1, said.err
    return said.err


def test_table_has_the_oracle(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table has the traces, a row for the default policy and one for the oracle, and the columns' meaning."""
    out = run(capsys, "--trace", folder, "--machines", "2", "--seed", "3")
    rows = [line.split() for line in out.splitlines() if line.startswith("cpu")]
    assert [(row[0], row[1], row[2], row[4]) for row in rows] == [
        ("cpu", "24h", "oracle", "0.00%"),
        ("cpu", "24h", "default", rows[1][4]),
    ]
    assert "cpu of 6 series, 2013-07-31 22:00 UTC to 2013-08-04 21:55 UTC, every 5m" in out
    assert "Packed at random on 2 machines, seed 3. The first 24h are not counted." in out
    assert "\ndefault is " in out
    assert "BEATEN BY" not in out


def test_targets_make_a_front_of_each_horizon(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each target is evaluated for each horizon with its own policy, and a sentence states the share to be had."""
    words: list[str | Path] = ["--trace", folder, "--machines", "2", "--policies", "target:3,0.5,3.0"]
    made = json.loads(run(capsys, *words, "-o", "json"))
    names = [(result["horizonSeconds"], result["policy"]) for result in made["results"]]
    assert names == [
        (3600 * hours, name)
        for hours in (1, 6, 24)
        for name in ("oracle", f"target:0.5,{hours}h", f"target:3,{hours}h")
    ]
    policy = made["policies"]["target:3,6h"]
    assert (policy["model"], policy["safetyMarginPercent"]) == ("coincidence", 0)
    assert policy["parameters"] == {"targetViolationPercent": 3.0, "horizonHours": 6.0}
    out = run(capsys, *words, "--policy", "sum-max", "--horizon", "2h")
    rows = [line.split()[2] for line in out.splitlines() if line.startswith("cpu ")]
    assert sorted(rows) == ["oracle", "sum-max", "target:0.5,2h", "target:3,2h"]
    (answer,) = (line for line in out.splitlines() if line.startswith("If Mid pods should be able to stay for 2h, "))
    assert re.search(
        r"cpu limits can be published: [\d.]+% at a target of 0.5% \(measured [\d.]+%.*\); .* of 3%", answer
    )
    assert "If Mid" not in run(capsys, *words[:4])


def test_wide_table_tells_all(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """-o wide has more columns, and what each policy is."""
    out = run(
        capsys, "--trace", folder, "--policy", "sum-max:margin=0", "--policy", "recent-max:margin=50", "-o", "wide"
    )
    assert "BEATEN BY" in out
    assert "sum-max:margin=0 is sum-max windowDays 7, margin 0 %; cold for 24h" in out
    assert "packed on 1 machine (--machines)" in out


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml"])
def test_names_control_no_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    """A trace's name, and texts of its files and of Prometheus's labels, are escaped in every form."""
    hostile = "\x1b[2J\r\nFORGED\u202e\x9b31m"
    shown = command._show

    def spoilt(found: Report, form: str) -> None:
        notes = (f"a note{hostile}",)
        traces = tuple(replace(trace, source=f"{trace.source}{hostile}", notes=notes) for trace in found.traces)
        results = tuple(replace(result, policy=f"{result.policy}{hostile}") for result in found.results)
        shown(replace(found, traces=traces, results=results), form)

    monkeypatch.setattr(command, "_show", spoilt)
    out = run(capsys, "--trace", folder, "--machines", "2", "-o", output)
    assert not {entry for entry in out if not entry.isprintable() and entry != "\n"}
    assert not [item for item in out.split("\n") if item.lstrip(" -").startswith("FORGED")]


def test_json_has_every_result(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs get the figures: for each horizon the oracle and each policy, in the order given."""
    words = ["--machines", "2", "--policy", "sum-max", "--policy", "default", "--horizon", "6h,1h,6h", "-o", "json"]
    document = json.loads(run(capsys, "--trace", folder, *words))
    matches = [
        (result["horizonSeconds"], result["policy"], result["machines"], result["seed"])
        for result in document["results"]
    ]
    assert matches == [(hours * 3600, name, 2, [0, 1]) for hours in (1, 6) for name in ("oracle", "sum-max", "default")]
    savings = [result["savingsPercent"] for result in document["results"]]
    assert savings[0] > savings[1] > 0
    assert savings[0] > savings[3]  # what lies further ahead leaves less


def test_all_policies_are_evaluated(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--policies all has every model that needs no other, and the default; more can be added."""
    words: list[str | Path] = ["--policies", "all", "--policy", COMBINED, "-o", "json"]
    document = json.loads(run(capsys, "--trace", folder, *words))
    names = {result["policy"] for result in document["results"]}
    assert names == {"oracle", "default", COMBINED, *MODELS} - COMBINING
    assert all(0 <= result["violationPercent"]["mean"] <= 100 for result in document["results"])


def test_policy_of_a_file(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file is evaluated by its name, and does as the same policy on the command line."""
    file = tmp_path / "bold.json"
    file.write_text('{"model": "recent-max", "parameters": {"windowDays": 2}, "safetyMarginPercent": 0}')
    words: list[str | Path] = ["--policy-file", file, "--policy", "recent-max:windowDays=2,margin=0", "-o", "json"]
    document = json.loads(run(capsys, "--trace", folder, *words))
    _, first, second = document["results"]
    assert (first.pop("policy"), second.pop("policy")) == ("bold", "recent-max:windowDays=2,margin=0")
    assert first == second
    assert document["policies"]["bold"]["parameters"] == {"windowDays": 2}


def test_part_of_a_trace(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words: list[str | Path] = ["--trace", folder, "--horizon", "1h", "--warm-up", "2h", "-o", "json"]
    cut = json.loads(run(capsys, *words, "--from", "2013-08-01", "--until", "2013-08-02"))
    assert (cut["traces"][0]["from"], cut["traces"][0]["until"]) == ("2013-08-01 00:00 UTC", "2013-08-01 23:55 UTC")
    last = json.loads(run(capsys, *words, "--last", "12h"))
    assert (last["traces"][0]["steps"], last["plan"]["warmUpSeconds"]) == (144, 7200)


def test_series_come_and_go(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With churn, series that live shorter than the cold period save nothing; those that come back are warm."""
    churn = ["--machines", "2", "--seed", "0", "--churn-mean-life", "2h", "--slots", "3"]
    words: list[str | Path] = ["--trace", folder, *churn, "--policy", "sum-max:margin=0,cold=12h"]

    def savings(*more: str) -> float:
        document = json.loads(run(capsys, *words, *more, "-o", "json"))
        back = 100.0 if more else 0.0
        assert document["plan"]["churn"] == {
            "meanLifeSeconds": 7200.0,
            "slotsPerMachine": 3,
            "comesBackPercent": back,
            "comesBackOnAny": False,
        }
        return float(document["results"][1]["savingsPercent"])

    alone, back = savings(), savings("--come-back", "100")
    assert back > alone + 10
    assert savings("--come-back", "100", "--workload-history", "none") < back - 10
    assert "Series come and go on 2 machines (mean life 2h, 3 slots each, seed 0)." in run(capsys, *words)


def test_pods_are_evaluated_where_they_were(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pods of an export are evaluated on their own nodes: no seed; --machines packs them at random."""
    columns = "uid,node,pod,workload,class,cpu_request_millicores,cpu_limit_millicores,mem_request_mib,mem_limit_mib\n"
    for node, pods in (("n1", {"a": 200, "b": 100}), ("n2", {"c": 500})):
        write(tmp_path / node / "cpu_millicores.csv", "\n".join([f"ts,{','.join(pods)}", *steady(48, *pods.values())]))
        write(tmp_path / node / "pods.csv", columns + "".join(f"{pod},{node},{pod},,prod,1000,,,\n" for pod in pods))
    words: list[str | Path] = ["--trace", tmp_path, "--horizon", "30m", "--warm-up", "1h"]
    words += ["--resource", "cpu", "--policy", "recent-max:margin=10,cold=10m"]
    document = json.loads(run(capsys, *words, "-o", "json"))
    oracle, result = document["results"]
    assert (result["machines"], result["seed"]) == (2, None)
    assert oracle["savingsPercent"] == pytest.approx(100 * (3 - 0.8) / 3, abs=0.01)
    assert result["savingsPercent"] == pytest.approx(100 * (3 - 0.88) / 3, abs=0.01)
    assert "Where they really were: 2 machines." in run(capsys, *words)
    packed = json.loads(run(capsys, *words, "--machines", "1", "--seed", "4", "-o", "json"))
    assert (packed["results"][1]["machines"], packed["results"][1]["seed"]) == (1, 4)
    said = refused(capsys, *words, "--seed", "4")
    assert "--seed is for packing series on --machines N; these have places of their own." in said


def test_long_work_shows_a_bar() -> None:
    """A terminal shows a bar and the present step once that takes long; a pipe shows none."""
    screen, pipe, now = Terminal(), io.StringIO(), [0.0]
    for out in (screen, pipe):
        now[0] = 0.0
        with Bar(out, lambda: now[0]) as bar:
            bar.update(0.1, "reading [x]")
            assert out.getvalue() == ""
            now[0] = 2.0
            bar.update(0.5, "machine-3 [x]")
            assert ("machine-3 [x]" in out.getvalue()) == (out is screen)
    assert "50%" in screen.getvalue()
    assert pipe.getvalue() == ""


def test_plot_is_drawn_too(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plot.svg"
    assert "default" in run(capsys, "--trace", folder, "--plot", file)
    assert file.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "one of the arguments --trace --prometheus is required"),
        (["--trace", "a", "--prometheus", "b"], "argument --prometheus: not allowed with argument --trace"),
        (["--trace", "nowhere"], "nowhere: "),
        (["--trace", ".", "-o", "csv"], "-o csv was removed: -o json has the same figures"),
        (["--trace", ".", "--policy", "divrsity"], "did you mean diversity?"),
        (["--trace", ".", "--policies", "some"], "argument --policies: 'some' is not all, or targets"),
        (["--trace", ".", "--policy-file", "nowhere.json"], "--policy-file: nowhere.json cannot be read: No such file"),
        (["--trace", ".", "--plot", "plot.pdf"], "--plot: plot.pdf must end in .png or .svg."),
        *(
            (
                ["--trace", ".", "--policies", wrong],
                f"argument --policies: {wrong!r} is not all, or targets of 0.1 to 7",
            )
            for wrong in ("target", "target:", "target:0.05,1", "target:1,8", "target:nan", "target:x", "goal:1", "")
        ),
        *(
            (
                ["--trace", ".", "--policies", "target:1", "--horizon", wrong],
                "--policies target: needs a --horizon from",
            )
            for wrong in ("30m", "1h,48h")
        ),
        (["--trace", ".", "--horizon", "1h,soon"], "argument --horizon: 'soon' is not a time such as 90m, 24h or 7d"),
        (["--trace", ".", "--horizon", "0h"], "argument --horizon: '0h' is not a time of at least a second"),
        (["--trace", ".", "--machines", "0"], "argument --machines: '0' is not a number from 1 to 100000"),
        (["--trace", ".", "--seed", "0,x"], "argument --seed: '0,x' is not a list of seeds such as 0,1"),
        (["--trace", ".", "--from", "soon"], "argument --from: 'soon' is no moment: write 2026-01-31"),
        (["--trace", ".", "--from", "2013-08-02", "--until", "2013-08-01"], "--from must be before --until."),
        (["--trace", ".", "--slots", "3"], "--slots describes how series come and go: give --churn-mean-life, too."),
        (["--trace", ".", "--come-back", "101"], "argument --come-back: '101' is not a number from 0 to 100"),
        (["--trace", ".", "--token-file", "t"], "--token-file is for --prometheus."),
        (["--prometheus", "http://x", "--query", "cpu"], "--query must be NAME=PROMQL, got 'cpu'."),
        (["--prometheus", "http://x", "--query", "gpu=up"], "there is no query 'gpu'; there are: cpu, memory"),
    ],
)
def test_wrong_words_are_explained(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each wrong flag is named with the way out, before anything long is done; exit code 2."""
    assert said in refused(capsys, *words)


def test_two_files_of_one_name(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "p.json").write_text('{"model": "sum-max"}')
    words: list[str | Path] = ["--policy-file", tmp_path / "a" / "p.json", "--policy-file", tmp_path / "b" / "p.json"]
    assert "Two policies are called p: give a file another name." in refused(capsys, "--trace", folder, *words)


def test_trace_that_is_too_short_to_be_warm(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A trace without warm pods, and so without savings, is reported with the way out."""
    words: list[str | Path] = ["--trace", folder, "--last", "24h", "--horizon", "1h,2h", "--warm-up", "3h"]
    out = run(capsys, *words, "--policy", "default", "--policy", "sum-max:cold=2h")
    assert (
        "- Every series is cold with default: the trace is too short for a cold period of 24h. "
        "A shorter one is written cold=2h." in out
    )
    assert "Everything counts" not in run(capsys, *words, "--policy", "sum-max:cold=2h")


def test_no_prometheus_there(capsys: pytest.CaptureFixture[str]) -> None:
    """A Prometheus that does not answer ends with 3, as an API server would."""
    said = refused(capsys, "--prometheus", "http://127.0.0.1:9", "--timeout", "5s", code=UNAVAILABLE)
    assert "127.0.0.1:9" in said
