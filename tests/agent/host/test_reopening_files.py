import os
from pathlib import Path

import pytest

from agent.host.reopening_files import ReopeningFile, Unreadable


def test_content_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "cpu.stat"
    path.write_text("1")
    held = ReopeningFile(path)
    assert held.read() == "1"
    path.write_text("22")
    assert held.read() == "22"


def test_replaced_file_is_reopened(tmp_path: Path) -> None:
    path = tmp_path / "cpu.stat"
    path.write_text("old")
    held = ReopeningFile(path)
    held.read()
    identity = held.identity
    (tmp_path / "new").write_text("new")
    (tmp_path / "new").replace(path)
    assert held.read() == "new"
    assert held.identity == identity


def test_path_in_a_recreated_folder_has_another_identity(tmp_path: Path) -> None:
    folder, other = tmp_path / "pod", tmp_path / "pod2"
    folder.mkdir()
    (folder / "f").write_text("1")
    held = ReopeningFile(folder / "f")
    held.read()
    identity = held.identity
    other.mkdir()  # before the first one goes, so that it cannot get its number
    (other / "f").write_text("2")
    (folder / "f").unlink()
    folder.rmdir()
    other.rename(folder)
    assert held.read() == "2"
    assert held.identity != identity


def test_vanished_file_is_named_and_read_again_when_it_is_back(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("1")
    held = ReopeningFile(path)
    held.read()
    path.unlink()
    with pytest.raises(Unreadable, match=str(path)):
        held.read()
    path.write_text("2")
    assert held.read() == "2"


def test_long_files_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("x" * 40_000)
    assert len(ReopeningFile(path).read()) == 40_000


def test_closed_file_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("1")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the count is all we want
    held = ReopeningFile(path)
    held.read()
    held.close()
    held.close()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_reading_is_timed(tmp_path: Path) -> None:
    """A reading has the middle of its duration as its time; a delayed one is repeated once."""
    path = tmp_path / "f"
    path.write_text("1")
    times = iter([10.0, 10.01, 20.0, 25.0, 25.0, 25.5])
    held = ReopeningFile(path, lambda: next(times))
    held.read()
    assert held.at == pytest.approx(10.005)
    held.read()
    assert held.at == pytest.approx(25.25)


def test_pipe_folder_and_device_are_not_read_and_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "pipe", tmp_path / "folder", Path("/dev/zero")):
        with pytest.raises(Unreadable, match=f"{path}: not a plain file") as caught:
            ReopeningFile(path).read()
        assert not caught.value.gone


def test_endless_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.touch()
    os.truncate(path, 1 << 30)
    with pytest.raises(Unreadable, match="more than 4 MiB"):
        ReopeningFile(path).read()
