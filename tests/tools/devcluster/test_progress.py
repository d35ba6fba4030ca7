import pytest

from tools.devcluster.progress import Progress


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def progress(parts: dict[str, float]) -> tuple[Progress, Clock, list[str]]:
    clock, lines = Clock(), list[str]()
    return Progress(parts, lines.append, terminal=False, clock=clock), clock, lines


def test_share_and_time_follow_the_measured_pace() -> None:
    """A part of an estimated minute takes two, so the three estimated minutes that are left take six."""
    bar, clock, lines = progress({"etcd": 60.0, "kubernetes": 180.0})
    with bar.part("etcd"):
        clock.now = 120.0
    bar("built etcd")
    assert lines == ["[######------------------]  25 %, about 6 min left  built etcd"]
    with bar.part("kubernetes"):
        clock.now += 180.0
        bar("still building")
    assert "62 %, about 3 min left" in lines[1]


def test_bar_ends_with_the_time_it_took() -> None:
    """A last part of a second shows no 100 % before it is done; the last line has the whole time."""
    bar, clock, lines = progress({"etcd": 6000.0, "images": 1.0})
    with bar.part("etcd"):
        clock.now = 300.0
    with bar.part("images"):
        bar("building images")
    bar("the parts are ready")
    assert [" 99 %, about 1 min left" in lines[0], lines[1].count("#")] == [True, 24]
    assert lines[1].endswith("] 100 %, took 5 min  the parts are ready")


def test_part_that_takes_too_long_is_not_done() -> None:
    bar, clock, lines = progress({"etcd": 60.0})
    with bar.part("etcd"):
        clock.now = 600.0
        bar("still building")
    assert " 97 %, about 1 min left" in lines[0]


def test_cached_parts_have_no_bar() -> None:
    bar, _, lines = progress({})
    with bar.part("etcd"):
        bar("found")
    assert lines == ["found"]


def test_terminal_has_one_moving_line(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Progress({"etcd": 60.0}, print, terminal=True)
    with bar.part("etcd"):
        bar("building etcd")
    assert capsys.readouterr().out.startswith("\r\033[Kbuilding etcd\n\r\033[K[------------------------]   0 %")
    bar("ready")
    assert capsys.readouterr().out.endswith("] 100 %, took 0 s  ready\n")
