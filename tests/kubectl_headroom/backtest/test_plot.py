import struct
from pathlib import Path

import pytest

from kubectl_headroom.backtest import plot
from kubectl_headroom.backtest.score import Result
from tests.kubectl_headroom.backtest.results import result, several

ONE = [result("oracle", [0.0], [50.0]), result("sum-max", [1.0], [40.0])]


def test_same_results_same_picture(tmp_path: Path) -> None:
    """The same results make the same bytes: no time, no random number."""
    first, second = tmp_path / "one.svg", tmp_path / "two.svg"
    plot.draw(ONE, first, "August")
    plot.draw(ONE, second, "August")
    assert first.read_bytes() == second.read_bytes()
    assert first.read_text().startswith("<?xml")


def test_every_horizon_has_its_row(tmp_path: Path) -> None:
    """Resources and horizons are drawn one below the other, each in a panel."""
    file = tmp_path / "plot.png"
    plot.draw([*ONE, *(result(entry.policy, [0.0], [9.0], resource="memory", horizon=3600) for entry in ONE)], file)
    head = file.read_bytes()[:24]
    width, height = struct.unpack(">II", head[16:24])
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert 0.9 < width / height < 1.1


@pytest.mark.parametrize(
    "results",
    [
        ONE[:1],
        [result("oracle", [0.0], [0.0]), result("sum-max", [100.0], [-3.0])],
        several(),
    ],
    ids=["the oracle alone", "the worst", "many"],
)
def test_extreme_results_are_drawn(results: list[Result], tmp_path: Path) -> None:
    """Few, many, and extreme results make a picture, without a warning."""
    plot.draw(results, tmp_path / "empty.svg")
    assert (tmp_path / "empty.svg").stat().st_size > 1000


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("plot.pdf", "plot.pdf must end in .png or .svg"),
        ("plot", "plot must end in .png or .svg"),
        ("nowhere/plot.png", "there is no folder "),
        ("folder.png", "folder.png is a folder"),
    ],
)
def test_wrong_files_are_refused(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(plot.PlotError, match=said.replace(".", r"\.")):
        plot.check(tmp_path / name)


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plot, "find_spec", lambda _: None)
    with pytest.raises(plot.PlotError, match=r"pipx inject kube-headroom matplotlib"):
        plot.check(tmp_path / "plot.svg")


def test_unwritable_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "link.png").symlink_to(tmp_path / "gone" / "plot.png")
    with pytest.raises(plot.PlotError, match=r"link\.png cannot be written: No such file"):
        plot.draw(ONE, tmp_path / "link.png")
