"""The admission policies of the chart, evaluated without a cluster: their CEL is evaluated as the API server does it.

What the API server itself makes of them is tried on a real one (`test_api_server.py`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import pytest
import yaml
from cel_expr_python import cel

from tests.charts.rendered import CHART, NAMESPACE
from tests.charts.test_api_server import ALLOWED, REFUSED

Json = dict[str, Any]

NODE_NAME: Final = "authentication.kubernetes.io/node-name"
OWN_NODE: Final = "agent-admission-policy.yaml"
NODE_STATUS: Final = "node-status-policy.yaml"
ENVIRONMENT: Final = cel.NewEnv(variables=dict.fromkeys(("request", "object", "oldObject", "variables"), cel.Type.DYN))
NODE: Final[Json] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "worker", "uid": "u", "resourceVersion": "7", "labels": {"zone": "a"}, "annotations": {}},
    "spec": {"podCIDR": "10.0.0.0/24"},
    "status": {
        "capacity": {"cpu": "8", "memory": "16Gi", "pods": "110", "kubernetes.io/mid-cpu": "1000"},
        "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110", "kubernetes.io/mid-cpu": "1000"},
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "192.0.2.9"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    },
}


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the API server."""

    user: str
    kind: tuple[str, str]
    """API group and resource, with the subresource."""
    operation: str = "UPDATE"
    name: str = "worker"
    extra: Mapping[str, list[str]] = field(default_factory=dict)
    old: Json | None = None
    new: Json | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy and what binds it, as a template of the chart has them."""

    policy: Json
    binding: Json

    def refuses(self, request: Request) -> bool:
        """Whether the API server refuses a request for it."""
        spec, binding = self.policy["spec"], self.binding["spec"]
        assert binding == {"policyName": self.policy["metadata"]["name"], "validationActions": ["Deny"]}
        assert spec["matchConstraints"].keys() == {"resourceRules"}
        if not any(_matches(rule, request) for rule in spec["matchConstraints"]["resourceRules"]):
            return False
        try:
            return self._evaluated(spec, request)
        except ArithmeticError:
            return bool(spec["failurePolicy"] == "Fail")

    def _evaluated(self, spec: Json, request: Request) -> bool:
        account = f"system:serviceaccount:{NAMESPACE}:" if request.user.startswith("headroom") else ""
        extra = {"extra": dict(request.extra)} if request.extra else {}
        about: Json = {
            "request": {
                "userInfo": {"username": f"{account}{request.user}", **extra},
                "operation": request.operation,
                "name": request.name,
            },
            "object": request.new,
            "oldObject": request.old,
            "variables": {},
        }
        if not all(_value(each["expression"], about) for each in spec.get("matchConditions", ())):
            return False
        for each in spec.get("variables", ()):
            about["variables"][each["name"]] = _value(each["expression"], about)
        return not all(_value(each["expression"], about) for each in spec["validations"])


def _matches(rule: Json, request: Request) -> bool:
    group, resource = request.kind
    assert rule.keys() == {"apiGroups", "apiVersions", "operations", "resources"}
    of_group = group in rule["apiGroups"] and "*" in rule["apiVersions"]
    return of_group and request.operation in rule["operations"] and resource in rule["resources"]


@cache
def _program(expression: str) -> cel.Expression:
    return ENVIRONMENT.compile(expression, disable_check=True)  # the checker takes no field of a dyn for a list or map


def _value(expression: str, about: Json) -> Any:  # noqa: ANN401 - of any type of CEL
    found = _program(expression).eval(data=about)
    if found.type() == cel.Type.ERROR:
        raise ArithmeticError(str(found.value()))
    return found.plain_value()


def _chart_policy(template: str) -> Policy:
    """The policy of a template whose only decisions are whether it is there at all."""
    text = (CHART / "templates" / template).read_text("utf-8")
    text = re.sub(r"^\{\{-? (?:/\*.*|if .*|end) ?-?\}\}$", "", text, flags=re.MULTILINE)
    text = text.replace("{{ .Release.Namespace }}", NAMESPACE)
    text = text.replace('{{- include "headroom.labels" . | nindent 4 }}', "{}")
    assert "{{" not in text
    policy, binding = yaml.safe_load_all(text)
    assert (policy["kind"], binding["kind"]) == ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    return Policy(policy, binding)


def _merged(into: Any, patch: Any) -> Any:  # noqa: ANN401 - JSON
    """A JSON merge patch, applied."""
    if not isinstance(patch, dict):
        return patch
    base = into if isinstance(into, dict) else {}
    changed = {key: _merged(base.get(key), value) for key, value in patch.items() if value is not None}
    return {**{key: value for key, value in base.items() if key not in patch}, **changed}


def _report(
    operation: str = "UPDATE",
    resource: str = "nodemetrics",
    name: str = "worker",
    extra: Mapping[str, list[str]] = MappingProxyType({NODE_NAME: ["worker"]}),
) -> Request:
    return Request("headroom-agent", ("slo.koordinator.sh", resource), operation, name, extra)


RESOURCES: Final = ("nodemetrics", "nodemetrics/status")
WRITES: Final = [(verb, what) for verb in ("CREATE", "UPDATE", "DELETE") for what in RESOURCES]
AGENT: Final[list[tuple[Request, bool]]] = [
    *((_report(verb, what), False) for verb, what in WRITES),
    *((_report(verb, what, "other"), True) for verb, what in WRITES),
    *((_report(verb, what, extra={}), True) for verb, what in WRITES),
    (_report(name="", extra={NODE_NAME: [""]}), True),
    (_report(extra={"scopes.example.com": ["worker"]}), True),
    (_report(extra={NODE_NAME: []}), True),
    (Request("headroom-manager", ("slo.koordinator.sh", "nodemetrics"), "CREATE", "other"), False),
    (Request("admin", ("slo.koordinator.sh", "nodemetrics"), "DELETE", "other"), False),
]
"""What is requested, and whether the agents' policy refuses it."""


def _patched(user: str, patch: Json, resource: str) -> Request:
    new = _merged(_merged(NODE, patch), {"metadata": {"resourceVersion": "8"}})
    return Request(user, ("", resource), old=NODE, new=new)


NODE_WRITES: Final[list[tuple[Request, bool]]] = [
    case
    for user in ("headroom-manager", "headroom-uninstall")
    for resource in ("nodes", "nodes/status")
    for case in (
        *((_patched(user, patch, resource), False) for patch in ALLOWED.values()),
        *((_patched(user, patch, resource), True) for patch in REFUSED.values()),
        (_patched(user, {"spec": {"unschedulable": True}}, resource), True),
        (_patched(user, {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}, resource), True),
        (_patched(user, {"spec": None}, resource), True),
        (_patched(user, {"metadata": {"labels": None}}, resource), True),
        (_patched(user, {"metadata": {"ownerReferences": [{"uid": "x"}]}}, resource), True),
        (_patched(user, {"status": {"allocatable": {"mid-cpu": "1"}}}, resource), True),
        (_patched(user, {"status": {"allocatable": {"example.com/kubernetes.io/mid-cpu": "1"}}}, resource), True),
        (Request(user, ("", resource), "CREATE", old=None, new=NODE), True),
        (Request(user, ("", resource), old={"metadata": {"name": "worker"}}, new={"status": {}}), True),
    )
] + [
    (_patched("system:node:worker", REFUSED["native CPU"], "nodes/status"), False),
    (_patched("headroom-agent", REFUSED["native CPU"], "nodes/status"), False),
    (Request("admin", ("", "nodes"), "CREATE", new=NODE), False),
]
"""The same for the policy of the manager and of the hook of `helm uninstall`."""
CASES: Final = {OWN_NODE: AGENT, NODE_STATUS: NODE_WRITES}


@pytest.mark.parametrize("template", CASES)
def test_policy_refuses_what_it_should(template: str) -> None:
    """Agents write their own node's NodeMetric alone, manager and hook `kubernetes.io/mid-*` alone; others go free."""
    policy = _chart_policy(template)
    assert [request for request, refused in CASES[template] if policy.refuses(request) is not refused] == []


@pytest.mark.parametrize("template", CASES)
def test_refusals_are_explained(template: str) -> None:
    """Every refusal is a 403 with the reason."""
    for each in _chart_policy(template).policy["spec"]["validations"]:
        assert each["reason"] == "Forbidden"
        about = {"request": {"name": "b"}, "variables": {"node": "a"}, "object": None, "oldObject": None}
        assert each["message"] if "message" in each else _value(each["messageExpression"], about)


@pytest.mark.parametrize("account", ["headroom-agent", "headroom-manager", "headroom-uninstall"])
def test_policies_know_the_accounts(account: str) -> None:
    """The accounts that the policies name are those that the chart's pods have."""
    templates = "".join(path.read_text("utf-8") for path in sorted((CHART / "templates").rglob("*.yaml")))
    assert f"serviceAccountName: {account}\n" in templates
