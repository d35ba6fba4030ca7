"""Where the browser of the tests comes from."""

from pathlib import Path

import pytest

from tools.devcluster import browser
from tools.devcluster.errors import MissingRequirementError
from tools.devcluster.packages import Package


def _which(monkeypatch: pytest.MonkeyPatch, *there: str) -> None:
    monkeypatch.setattr(
        "tools.devcluster.browser.shutil.which", lambda name: f"/usr/bin/{name}" if name in there else None
    )


def test_an_installed_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any browser of the family will do, the smallest first, and nothing is installed then."""
    _which(monkeypatch, "google-chrome", "chromium")
    assert browser.find_or_install() == Path("/usr/bin/chromium")
    assert browser.refusal() is None


def test_it_is_installed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root on Debian gets the package, by name."""
    wanted: list[str] = []
    _which(monkeypatch, "apt-get")
    monkeypatch.setattr("tools.devcluster.browser.os.geteuid", lambda: 0)

    def install(packages: list[Package], _say: object) -> None:
        wanted.extend(package.name for package in packages)
        _which(monkeypatch, "chromium-headless-shell")

    monkeypatch.setattr("tools.devcluster.browser.install_packages", install)
    assert browser.find_or_install(lambda _: None) == Path("/usr/bin/chromium-headless-shell")
    assert wanted == ["chromium-headless-shell"]


@pytest.mark.parametrize(
    ("there", "user", "why"), [((), 0, "is Debian's package"), (("apt-get",), 1000, "only root can")]
)
def test_a_refusal_says_why(monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], user: int, why: str) -> None:
    """Where none can be had the reason names what is missing, and nothing is tried."""
    _which(monkeypatch, *there)
    monkeypatch.setattr("tools.devcluster.browser.os.geteuid", lambda: user)
    assert why in (browser.refusal() or "")
    with pytest.raises(MissingRequirementError, match=why):
        browser.find_or_install()
