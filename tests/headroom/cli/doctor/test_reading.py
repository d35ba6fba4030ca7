"""How checks read versions, schemas, policies and metrics, and what service accounts need."""

import pytest

from headroom.cli.doctor.checks.crds import missing
from headroom.cli.doctor.checks.network_policies import admits, selecting
from headroom.cli.doctor.checks.prerequisites import minor
from headroom.cli.doctor.checks.reports import detected
from headroom.cli.doctor.node_metric import NodeMetricSummary
from headroom.cli.doctor.service_accounts import Installed, policy_rules
from tests.headroom.cli.doctor.world import node_metric, ours
from tests.support.objects import NOW, at


@pytest.mark.parametrize(
    ("text", "number"),
    [("v1.33.5-gke.1", (1, 33)), ("v1.36.2", (1, 36)), ("1.30+", (1, 30)), ("kwok-0.8", None), ("", None)],
)
def test_minor(text: str, number: tuple[int, int] | None) -> None:
    """Vendors put things behind the number; kwok calls its kubelet something else."""
    assert minor(text) == number


def test_missing_fields() -> None:
    """Fields are looked for in objects, lists and maps; a part that keeps everything lacks nothing."""
    text = {"type": "string"}
    wanted = {
        "properties": {
            "a": {"properties": {"b": text, "c": text}},
            "l": {"items": {"properties": {"x": text}}},
            "m": {"additionalProperties": {"properties": {"y": text}}},
            "kind": text,
        }
    }
    some = {
        "a": {"properties": {"b": text}},
        "l": {"items": {"properties": {}}},
        "m": {"additionalProperties": {"properties": {}}},
    }
    assert list(missing(wanted, {"properties": some})) == ["a.c", "l[].x", "m.*.y"]
    assert list(missing(wanted, {"x-kubernetes-preserve-unknown-fields": True})) == []
    assert list(missing(wanted, wanted)) == []
    assert list(missing(wanted, {"properties": {**wanted["properties"], "m": {}}})) == ["m.*"]
    assert list(missing(wanted, {"properties": {**wanted["properties"], "m": {"additionalProperties": True}}})) == []


def test_policies_add_up() -> None:
    """What one policy refuses another may admit."""
    deny = ours("deny", spec={"podSelector": {}, "policyTypes": ["Egress"]})
    admit = ours("admit", spec={"podSelector": {}, "egress": [{"ports": [{"port": 443}]}]})
    chosen = selecting([deny, admit], {}, "Egress")
    assert chosen == [deny, admit]
    assert admits(chosen, "Egress", 443)
    assert not admits(chosen, "Egress", 80)
    assert selecting([deny], {}, "Ingress") == []


def test_detected() -> None:
    """Metrics without the one that says what an agent detected say nothing."""
    assert detected("headroom_agent_pods 1\n") is None
    assert detected('# HELP x y\nheadroom_agent_detected{cgroup="v2"} 1.0\n') == {"cgroup": "v2"}


def test_rights_follow_the_installation() -> None:
    """What an account needs depends on how it is installed."""

    def kinds(how: Installed) -> dict[str, set[tuple[str, str]]]:
        return {account: {(each.resource, each.name) for each in its} for account, its in policy_rules(how).items()}

    every = kinds(Installed("n"))
    less = kinds(Installed("n", config_name="mine", certificates="", lease="a"))
    assert every["headroom-agent"] == less["headroom-agent"]
    assert ("configmaps", "mine") in less["headroom-manager"]
    assert "secrets" not in {resource for resource, _ in less["headroom-manager"]}
    assert ("leases", "a") in less["headroom-scheduler"]
    assert set(kinds(Installed("n", components=("headroom-agent",)))) == {"headroom-agent"}


def test_clock_of_a_fast_report() -> None:
    """The later of full report and prediction belongs to the last write; without an account nothing is known."""
    metric = node_metric("node-1", ago=10.0)
    metric["status"]["updateTime"] = at(-50)
    assert NodeMetricSummary.of(metric).ahead == 0.0
    assert NodeMetricSummary.of(metric).age(NOW) == 50.0
    metric["metadata"]["managedFields"] = []
    assert NodeMetricSummary.of(metric).ahead is None
    assert NodeMetricSummary.of(metric).age(NOW) == 50.0
    metric["status"]["updateTime"] = "yesterday"
    assert NodeMetricSummary.of(metric).age(NOW) is None
