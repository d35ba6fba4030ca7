"""The command as a whole: exit codes, forms of output, few permissions, and clusters without Headroom."""

import json
from collections.abc import Callable
from typing import cast

import pytest
import yaml

from headroom import kube
from kubectl_headroom.doctor import command
from kubectl_headroom.doctor import permissions as may
from kubectl_headroom.doctor.finding import info, ok
from kubectl_headroom.doctor.permissions import Permission
from kubectl_headroom.doctor.registry import CHECKS, READS, Stage
from tests.kubectl_headroom.doctor.world import (
    CONFIG,
    ERROR,
    INFO,
    NAMESPACE,
    OK,
    WARNING,
    World,
    attributes,
    findings,
    gone,
    healthy,
    put,
    results,
    workload,
)
from tests.support.objects import NOW

_NAMES = {check.name for check in CHECKS if Stage.INSTALLED in check.stage}


async def test_healthy_has_nothing_to_say() -> None:
    """An installation that is all right: every check says ok, and nothing else."""
    result = await results()
    assert {name for name, _ in result} == _NAMES
    assert [f"{name}: {each.message}" for name, each in result if each.severity is not OK] == []


async def test_findings_name_a_way_out() -> None:
    """Whatever is wrong comes with what corrects it, and the page that says more."""
    world = World()
    world.add(may.NAMESPACES, {"metadata": {"name": NAMESPACE, "labels": {}}})
    wrong = [each for _, each in await results(world=world) if each.severity in {WARNING, ERROR}]
    assert all(entry.fix and entry.docs for entry in wrong)
    # With --reuse-values alone a newer chart lacks the values that it has added, and its schema refuses that.
    upgrades = [" --reset-then-reuse-values" in case.fix for case in wrong if "helm upgrade headroom" in case.fix]
    assert upgrades
    assert all(upgrades)


@pytest.mark.parametrize("permission", READS, ids=str)
async def test_missing_permission_is_named(permission: Permission) -> None:
    """A denied read is one advice that names the permission, and no error."""
    result = [each for _, each in await results(attributes(refused={str(permission)}))]
    lacking = [entry for entry in result if str(permission) in entry.message]
    assert {item.severity for item in lacking} == {INFO}
    assert {element.docs for element in lacking} == {"kubectl.md#doctor"}
    assert [each.message for each in result if each.severity is ERROR] == []


async def test_nothing_readable() -> None:
    """A login without any permission learns which it lacks, check by check, and that nothing was found wrong."""
    result = await results(attributes(refused={str(read) for read in READS}))
    assert {each.severity for _, each in result} == {OK, INFO}
    assert {name for name, _ in result} == _NAMES


async def test_unknown_kind() -> None:
    """Where NodeMetrics are not defined, checks of reports say so."""
    (result,) = await findings("clocks", attributes(undefined={"nodemetrics"}))
    assert result.message == "Not checked: this cluster does not know nodemetrics."


@pytest.mark.parametrize("made", [World, healthy])
async def test_server_without_workloads(made: Callable[[], World]) -> None:
    """An API server without DaemonSets and Deployments is checked for the rest, and the checks of these are named."""
    undefined = {"daemonsets", "deployments"}
    result = await results(attributes(undefined=undefined), world=made())
    assert {name for name, _ in result} == _NAMES
    lines = [f"Not checked: this cluster does not know {kind}." for kind in undefined]
    unchecked = {(entry.severity, entry.message) for _, entry in result if entry.message in lines}
    assert unchecked == {(INFO, line) for line in lines}


async def test_failing_server() -> None:
    """An API server that fails at one thing is an error of that check alone; one that is gone ends the command."""
    (failed,) = await findings("nodes", attributes(failing={"nodes": 500}))
    assert (failed.severity, failed.message) == (ERROR, "Not checked: The API server answers 500: oh.")
    with pytest.raises(kube.ApiUnavailable):
        await results(attributes(failing={"nodes": None}))


async def test_nothing_of_ours() -> None:
    """A cluster without Headroom gets one error: what installs it, and what to ask before."""
    ((check, result),) = await results(world=World())
    assert (check, result.severity) == ("install", ERROR)
    assert "Headroom is not installed" in result.message
    assert "kubectl headroom doctor --preflight" in result.message
    assert (
        result.fix
        == f"helm install headroom charts/headroom -n {NAMESPACE} --create-namespace --set image.registry=REGISTRY"
    )
    before = {name for name, _ in await results(world=World(), preflight=True)}
    assert before == {check.name for check in CHECKS if Stage.PREFLIGHT in check.stage}


@pytest.mark.parametrize("permission", [may.NAMESPACES, may.DEPLOYMENTS, may.DAEMON_SETS], ids=str)
async def test_nothing_that_may_be_seen(permission: Permission) -> None:
    """A denied read is not reported as a missing object."""
    result = await results(attributes(refused={str(permission)}), world=World())
    assert "install" not in {name for name, _ in result}


async def test_elsewhere() -> None:
    """Where it is in another namespace, the fix is to look there."""
    world = World()
    world.add(may.DAEMON_SETS, workload("headroom-agent", namespace="elsewhere"))
    (result,) = await findings("manager", world=world)
    assert result.message.endswith("Headroom is in elsewhere.")
    assert result.fix == "kubectl headroom doctor -n elsewhere"


async def _run(world: World, output: str) -> int:
    api = cast("kube.ApiServer", world)
    return await command.run(api, namespace=NAMESPACE, config_name=CONFIG, preflight=False, output=output)


@pytest.fixture
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubectl_headroom.doctor.command.time.time", lambda: NOW)


@pytest.mark.usefixtures("_clock")
async def test_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings do not fail; errors do."""
    world = healthy()
    assert await _run(world, "table") == 0
    assert capsys.readouterr().out.endswith("No errors and no warnings.\n")
    gone(may.PRIORITY_CLASSES, "koord-batch")(world)
    assert await _run(world, "table") == 0
    assert capsys.readouterr().out.endswith("1 warning.\n")
    level = "pod-security.kubernetes.io/enforce"
    put(may.NAMESPACES, NAMESPACE, f"metadata labels {level}", "restricted")(world)
    assert await _run(world, "table") == 1
    out = capsys.readouterr().out
    assert out.endswith("1 error and 1 warning.\n")
    assert f"fix: kubectl label namespace {NAMESPACE} {level}=privileged" in out


@pytest.mark.usefixtures("_clock")
async def test_forms(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON and YAML hold the same; wide names pages and all objects."""
    world = healthy()
    gone(may.PODS, "agent-0")(world)
    await _run(world, "json")
    data = json.loads(capsys.readouterr().out)
    await _run(world, "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == data
    assert (data["kind"], data["version"], data["preflight"], data["summary"]["error"]) == ("Doctor", 1, False, 1)
    (wrong,) = [finding for finding in data["findings"] if finding["severity"] == "error"]
    assert (wrong["check"], wrong["docs"]) == ("agents", "troubleshooting.md")
    assert wrong["objects"] == ["node-1"]
    await _run(world, "wide")
    wide = capsys.readouterr().out
    assert "docs: docs/troubleshooting.md" in wide
    assert "all: node-1" in wide
    await _run(world, "table")
    assert "docs/" not in capsys.readouterr().out


def test_verdict() -> None:
    """Findings that say only that this login may not look are counted."""
    assert command.verdict([]) == "No errors and no warnings."
    assert command.verdict([("a", ok("Well.")), ("b", info("Not looked at.", is_unreadable=True))]) == (
        "No errors and no warnings; 1 of 2 findings are only missing permissions."
    )
