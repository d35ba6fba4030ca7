"""The command as a whole: registry, exit codes, forms of output, and few rights."""

import json
import re
from typing import Any, cast

import pytest
import yaml

from headroom import kube
from headroom.cli.doctor import command
from headroom.cli.doctor import permissions as rights
from headroom.cli.doctor.finding import Finding, Severity, named, ok
from headroom.cli.doctor.registry import CHECKS, READS, Stage
from tests.architecture.sources import ROOT
from tests.headroom.cli.doctor.installation import healthy
from tests.headroom.cli.doctor.world import NAMESPACE, NOW, World, found, told


def test_registry_names_every_check() -> None:
    """Each file of checks is registered, and each line leads to a function."""
    files = {path.stem for path in (ROOT / "headroom/cli/doctor/checks").glob("*.py")} - {"__init__"}
    assert {check.where.partition(":")[0] for check in CHECKS} == files
    assert all(callable(check.load()) for check in CHECKS)


async def test_healthy_has_nothing_to_say() -> None:
    """An installation that is all right: every check says ok, and nothing else."""
    said = await told(healthy())
    assert {name for name, _ in said} == {each.name for each in CHECKS if Stage.INSTALLED in each.stage}
    assert [f"{name}: {each.message}" for name, each in said if each.severity is not Severity.OK] == []


async def test_findings_name_a_way_out() -> None:
    """Whatever is wrong comes with what mends it, and the page that says more exists."""
    world = World()
    world.add(rights.NAMESPACES, {"metadata": {"name": NAMESPACE, "labels": {}}})
    said = await told(world)
    bad = [each for _, each in said if each.severity in {Severity.WARNING, Severity.ERROR}]
    assert bad
    assert all(each.fix for each in bad)
    # With --reuse-values alone a newer chart lacks the values that it has added, and its schema refuses that.
    upgrades = [each.fix for each in bad if "helm upgrade headroom" in each.fix]
    assert upgrades
    assert all(" --reset-then-reuse-values" in each for each in upgrades)


@pytest.mark.parametrize("right", READS, ids=str)
async def test_missing_right_is_named(right: Any) -> None:  # noqa: ANN401
    """What may not be read is one word of advice that names the right, and no error."""
    world = healthy()
    world.refused.add(str(right))
    said = await told(world)
    lacking = [each for _, each in said if str(right) in each.message]
    assert lacking
    assert {each.severity for each in lacking} == {Severity.INFO}
    assert not [each.message for _, each in said if each.severity is Severity.ERROR]


async def test_nothing_readable() -> None:
    """A login without any right learns which it lacks, check by check, and that nothing was found wrong."""
    world = healthy()
    world.refused |= {str(right) for right in READS}
    said = await told(world)
    assert {each.severity for _, each in said} == {Severity.OK, Severity.INFO}
    assert {name for name, _ in said} == {each.name for each in CHECKS if Stage.INSTALLED in each.stage}


async def test_unknown_kind() -> None:
    """Where NodeMetrics are not defined, checks of reports say so, and the CRD's absence is the error."""
    world = healthy()
    world.undefined.add("nodemetrics")
    assert "does not know nodemetrics" in (await found(world, "clocks"))[0].message


class Failing(World):
    """An API server that cannot list Nodes."""

    status: int | None = 500

    async def list(self, path: str, *arguments: Any, **named_arguments: Any) -> Any:  # noqa: ANN401
        """Fails for Nodes."""
        if path.endswith("/nodes"):
            raise kube.ApiUnavailable("The API server answers 500: oh", self.status)
        return await super().list(path, *arguments, **named_arguments)


async def test_failing_server() -> None:
    """An API server that fails at one thing is an error of that check alone; one that is gone ends the command."""
    world = Failing()
    world.objects = healthy().objects
    (failed,) = [each for name, each in await told(world) if name == "nodes"]
    assert failed.severity is Severity.ERROR
    assert "answers 500" in failed.message
    world.status = None
    with pytest.raises(kube.ApiUnavailable):
        await told(world)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The made cluster's time."""
    monkeypatch.setattr("headroom.cli.doctor.command.time.time", lambda: NOW)


async def run(world: World, output: str) -> int:
    """Run the command."""
    api = cast("kube.ApiServer", world)
    return await command.run(
        api, namespace=NAMESPACE, config_name="slo-controller-config", preflight=False, output=output
    )


@pytest.mark.usefixtures("clock")
async def test_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings do not fail; errors do."""
    world = healthy()
    assert await run(world, "table") == 0
    assert capsys.readouterr().out.endswith("No errors and no warnings.\n")
    koord = next(path for path in world.objects if path.endswith("/koord-batch"))
    del world.objects[koord]
    assert await run(world, "table") == 0
    assert capsys.readouterr().out.endswith("1 warning.\n")
    world.objects[f"/api/v1/namespaces/{NAMESPACE}"]["metadata"]["labels"] = {
        "pod-security.kubernetes.io/enforce": "restricted"
    }
    assert await run(world, "table") == 1
    out = capsys.readouterr().out
    assert out.endswith("1 error and 1 warning.\n")
    assert f"fix: kubectl label namespace {NAMESPACE} pod-security.kubernetes.io/enforce=privileged" in out


@pytest.mark.usefixtures("clock")
async def test_forms(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON and YAML hold the same; wide names pages and all objects."""
    world = healthy()
    world.denied.add(("headroom-agent", "patch", "nodemetrics/status"))
    await run(world, "json")
    data = json.loads(capsys.readouterr().out)
    await run(world, "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == data
    (wrong,) = [each for each in data["findings"] if each["severity"] == "error"]
    assert wrong["check"] == "rights"
    assert wrong["objects"] == ["patch nodemetrics/status.slo.koordinator.sh"]
    assert data["summary"]["error"] == 1
    await run(world, "wide")
    wide = capsys.readouterr().out
    assert "docs: docs/security.md" in wide
    assert "all: patch nodemetrics/status.slo.koordinator.sh" in wide
    await run(world, "table")
    assert "docs/" not in capsys.readouterr().out


def test_many_names() -> None:
    """Of many names the first are told, and how many there are more."""
    assert named([str(number) for number in range(7)]) == "0, 1, 2, 3, 4 and 2 more"
    assert named(["a"]) == "a"
    assert command.verdict([]) == "No errors and no warnings."
    blind = Finding(Severity.INFO, "Not looked at.", is_unreadable=True)
    assert command.verdict([("a", ok("Well.")), ("b", blind)]).endswith(
        "no warnings; 1 of 2 findings say only that this login may not look."
    )


def test_pages_exist() -> None:
    """Every page that a finding names is in docs, and every check is explained there."""
    named_pages = {
        page
        for path in (ROOT / "headroom/cli/doctor").rglob("*.py")
        for page in re.findall(r'"([\w-]+\.md)[#"]', path.read_text())
    }
    assert len(named_pages) >= 8
    assert sorted(page for page in named_pages if not (ROOT / "docs" / page).is_file()) == []
    told_in = (ROOT / "docs/kubectl.md").read_text()
    assert [name for name in {each.name for each in CHECKS} if f"\n| `{name}` | " not in told_in] == []
