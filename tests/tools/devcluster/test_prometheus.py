"""Where a real Prometheus comes from."""

from pathlib import Path

import pytest

from tools.devcluster import prometheus
from tools.devcluster.commands import CommandError
from tools.devcluster.errors import DevClusterError, MissingRequirementError


@pytest.fixture(autouse=True)
def not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty cache on a machine that has apt and no Prometheus."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(
        "tools.devcluster.prometheus.shutil.which",
        lambda name: None if name in prometheus.PROGRAMS else f"/usr/bin/{name}",
    )


def unpacked(*programs: str) -> object:
    """Stands for `run`: what dpkg-deb would unpack."""

    def run(argv: list[object], **_: object) -> str:
        if argv[0] == "dpkg-deb":
            folder = Path(str(argv[-1])) / "usr/bin"
            folder.mkdir(parents=True)
            for program in programs:
                (folder / program).touch()
        return ""

    return run


def download(work: Path, _say: object) -> None:
    """Stands for `_download`."""
    (work / "prometheus_2_amd64.deb").touch()


def test_package_is_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call fetches and unpacks; the next takes what is in the cache."""
    monkeypatch.setattr(prometheus, "_download", download)
    monkeypatch.setattr(prometheus, "run", unpacked("prometheus", "promtool"))
    found = prometheus.find_or_fetch(lambda _: None)
    assert found.server.exists()
    assert found.tool.exists()
    monkeypatch.setattr(prometheus, "_download", lambda *_: pytest.fail("fetched twice"))
    assert prometheus.find_or_fetch(lambda _: None) == found


def test_odd_package_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A package without the programs is an error, and leaves nothing behind that looks like them."""
    monkeypatch.setattr(prometheus, "_download", download)
    monkeypatch.setattr(prometheus, "run", unpacked("prometheus"))
    with pytest.raises(DevClusterError, match="does not hold prometheus and promtool"):
        prometheus.find_or_fetch(lambda _: None)
    assert [path.name for path in (tmp_path / "headroom/prometheus").iterdir()] == ["lock"]


def test_lists_are_read_when_it_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On a machine whose apt has no lists yet the download works after reading them."""
    calls: list[str] = []

    def run(argv: list[str], **_: object) -> str:
        calls.append(argv[2])
        if len(calls) == 1:
            raise CommandError(argv, 100, "E: Unable to locate package prometheus")
        return ""

    monkeypatch.setattr(prometheus, "run", run)
    monkeypatch.setattr(prometheus, "update_lists", lambda _say: calls.append("update"))
    prometheus._download(tmp_path, print)
    assert calls == ["download", "update", "download"]


def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without apt there is no package to fetch, and the message says so."""
    monkeypatch.setattr("tools.devcluster.prometheus.shutil.which", lambda _: None)
    assert "Debian" in (prometheus.refusal() or "")
    with pytest.raises(MissingRequirementError, match="Debian"):
        prometheus.find_or_fetch(print)


def test_installed_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Prometheus on PATH is used as it is."""
    monkeypatch.setattr("tools.devcluster.prometheus.shutil.which", lambda name: f"/opt/{name}")
    assert prometheus.find_or_fetch(print).tool == Path("/opt/promtool")
