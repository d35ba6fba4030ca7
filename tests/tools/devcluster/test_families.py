"""The versions of Kubernetes that the dev cluster has, and the choice among them."""

import re
from pathlib import Path

import pytest
import yaml

from tools.devcluster import DevClusterError, binaries
from tools.devcluster.__main__ import main
from tools.devcluster.binaries import Binaries
from tools.devcluster.families import FAMILIES, KUBERNETES_VARIABLE, Family, of_kubernetes, version_tuple

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "headroom" / "Chart.yaml"
PAGE = ROOT / "docs" / "devcluster.md"
DEFAULT = FAMILIES["kubernetes"]
OTHERS = sorted(file.parent.name for file in DEFAULT.directory.glob("*/go.mod"))


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of another version run these tests, too."""
    monkeypatch.delenv(KUBERNETES_VARIABLE, raising=False)


@pytest.mark.parametrize("minor", [DEFAULT.minor, *OTHERS])
def test_version_is_pinned_as_a_whole(minor: str) -> None:
    """The components and all their libraries have one patch version, and the checksums are there."""
    family = of_kubernetes(minor)
    assert family.minor == minor
    text = family.sources["go.mod"].read_text()
    libraries = set(re.findall(r"^\tk8s\.io/\S+ => k8s\.io/\S+ (\S+)$", text, re.MULTILINE))
    assert libraries == {family.version.replace("v1.", "v0.", 1)}
    assert f"k8s.io/kubernetes {family.version} h1:" in family.sources["go.sum"].read_text()


def test_oldest_supported_version_is_there() -> None:
    """The oldest version of the dev cluster is the oldest that the chart accepts."""
    lowest = min((DEFAULT.minor, *OTHERS), key=version_tuple)
    assert yaml.safe_load(CHART.read_text())["kubeVersion"] == f">={lowest}.0-0"


def test_page_names_the_versions() -> None:
    """The page of the dev cluster has each version, and no other."""
    section = PAGE.read_text().partition("\n## Other versions of Kubernetes\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"\b1\.\d\d\b", section)) == {DEFAULT.minor, *OTHERS}


def test_default_is_that_of_the_module() -> None:
    """Without a choice the version is that of go.mod, and an empty variable is no choice."""
    assert of_kubernetes() == DEFAULT
    assert DEFAULT.minor not in OTHERS


def test_argument_precedes_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    first, last = OTHERS[0], OTHERS[-1]
    monkeypatch.setenv(KUBERNETES_VARIABLE, first)
    assert of_kubernetes().minor == first
    assert of_kubernetes(last).minor == last
    monkeypatch.setenv(KUBERNETES_VARIABLE, "")
    assert of_kubernetes() == DEFAULT


@pytest.mark.parametrize("wanted", ["1.2", "foo", "1.36.2", "v1.36", " "])
def test_unknown_version_names_the_known_ones(wanted: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command fails before it builds or starts anything, and lists the versions in their order."""
    with pytest.raises(DevClusterError, match=f"^the dev cluster has no Kubernetes {wanted!r}; .* take one of 1.30, "):
        of_kubernetes(wanted)
    for command in ("prepare", "up"):
        assert main([command, "--kubernetes", wanted]) == 1
        output = capsys.readouterr()
        assert (output.out, output.err.splitlines()[0][:41]) == ("", "error: the dev cluster has no Kubernetes ")


def test_programs_are_found_by_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each version has programs of its own in the cache; other families are the same for all of them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr(binaries, "_build", _fake_build)
    minors = (DEFAULT.minor, *OTHERS)
    results = [Binaries.find_or_build(["etcd", "kubernetes"], lambda _: None, minor) for minor in minors]
    assert len({result.path("kube-scheduler") for result in results}) == len(results)
    assert len({result.path("etcd") for result in results}) == 1
    assert [result.kubernetes_version for result in results] == [of_kubernetes(minor).version for minor in minors]
    assert Binaries.missing(["kubernetes"], OTHERS[0]) == ["kubernetes"]


def _fake_build(family: Family, _: binaries.Say) -> dict[str, Path]:
    directory = binaries._cached_directory(family)
    return {program: directory / program for program in family.programs}


def test_versions_compare_as_numbers() -> None:
    result = Binaries({}, "v1.30.14")
    assert result.runs_kubernetes("1.30")
    assert result.runs_kubernetes("1.9")
    assert not result.runs_kubernetes("1.31")
