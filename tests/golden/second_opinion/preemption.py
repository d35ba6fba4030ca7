"""Whom CapacityScheduling evicts, worked out from lists of pods: usage is summed up anew for every question.

Only resources decide whether a pod fits. `quirks` answers as the peer does where we differ on purpose: there a pod that
is in the way of the quota alone is no violation of its disruption budget, and a pod that is in the way of both node and
quota costs the whole node.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from crds.quantity import parse_quantity

Json: TypeAlias = Mapping[str, Any]
Amounts: TypeAlias = Mapping[str, int]
_NAMED = ("cpu", "memory", "ephemeral-storage")
_LATE = "9999"


class LostNodeError(Exception):
    """The peer removes a pod twice, and gives the node up."""


def total_of(amounts: Iterable[Amounts]) -> Counter[str]:
    """The sum, with the names of which it has none."""
    total = Counter[str]()
    for each in amounts:
        total.update(each)
    return total


def request(pod: Json) -> Counter[str]:
    """What a pod asks for: its containers, no less than any init container, and its overhead."""
    spec, total = pod["spec"], Counter[str]()
    for container in spec.get("containers") or ():
        total.update(integers((container.get("resources") or {}).get("requests")))
    for container in spec.get("initContainers") or ():
        for name, amount in integers((container.get("resources") or {}).get("requests")).items():
            total[name] = max(total[name], amount)
    total.update(integers(spec.get("overhead")))
    return total


def integers(resources: Json | None) -> Counter[str]:
    """A resource list in milli-cores and base units; names that no scheduler knows are left out."""
    return Counter(
        {
            name: math.ceil(parse_quantity(amount) * (1000 if name == "cpu" else 1))
            for name, amount in (resources or {}).items()
            if name in (*_NAMED, "pods") or _is_scalar(name)
        }
    )


def _is_scalar(name: str) -> bool:
    domain = "/" in name and not name.startswith("requests.")
    return domain or "kubernetes.io/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def selects(budget: Json, pod: Json) -> bool:
    """Whether a budget is about a pod; an empty selector is about none, as kube-scheduler reads it."""
    selector = (budget.get("spec") or {}).get("selector") or {}
    wanted, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or ()
    labels = pod["metadata"].get("labels") or {}
    if not labels or not (wanted or expressions) or budget["metadata"].get("namespace") != namespace_of(pod):
        return False
    return wanted.items() <= labels.items() and all(_holds(each, labels) for each in expressions)


def _holds(expression: Json, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case operator:
            return operator == "DoesNotExist" and key not in labels


def name_of(pod: Json) -> str:
    """`namespace/name`."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def namespace_of(pod: Json) -> str:
    """Of a pod."""
    return str(pod["metadata"]["namespace"])


def priority_of(pod: Json) -> int:
    """Of a pod."""
    return int(pod["spec"].get("priority") or 0)


def start_of(pod: Json) -> str:
    """When a pod started, as text that sorts; one that has not comes last."""
    return (pod.get("status") or {}).get("startTime") or _LATE


def ranked(pods: Iterable[Json]) -> list[Json]:
    """The most important first."""
    return sorted(pods, key=lambda pod: (-priority_of(pod), start_of(pod)))


class World:
    """A vector of the operation `preempt`.

    Args:
        vector: the vector.
        quirks: whether to answer as the peer does.
    """

    def __init__(self, vector: Json, *, quirks: bool) -> None:
        self.quirks = quirks
        self.pod = vector["preemptor"]
        self.home = namespace_of(self.pod)
        self.bound = [pod for pod in vector.get("pods") or () if pod["spec"].get("nodeName")]
        self.nodes = {node["metadata"]["name"]: integers(node["status"]["allocatable"]) for node in vector["nodes"]}
        given = vector.get("elasticQuotas") or ()
        specs = {quota["metadata"]["namespace"]: quota.get("spec") or {} for quota in given}
        self.least = {namespace: integers(spec.get("min")) for namespace, spec in specs.items()}
        self.most = {namespace: self._most(spec.get("max")) for namespace, spec in specs.items()}
        self.budgets = list(vector.get("podDisruptionBudgets") or ())
        self.nominated = [pod for pod in vector.get("nominatedPods") or () if self._is_nominated(pod)]
        self.statuses = vector.get("filterStatuses") or {}
        need = request(self.pod)
        same = [pod for pod in self.nominated if namespace_of(pod) == self.home]
        at_least = priority_of(self.pod)
        self.demand = total_of([need, *(request(pod) for pod in same if priority_of(pod) >= at_least)])
        others = [pod for pod in self.nominated if namespace_of(pod) in self.least.keys() - {self.home}]
        modest = [pod for pod in others if not self.is_over_min(namespace_of(pod), self.bound)]
        self.whole_demand = total_of([self.demand, *(request(pod) for pod in modest)])

    def _most(self, given: Json | None) -> dict[str, float]:
        bound: dict[str, float] = dict.fromkeys(_NAMED, math.inf if given is None else 0)
        return bound | integers(given)

    def _is_nominated(self, pod: Json) -> bool:
        node = (pod.get("status") or {}).get("nominatedNodeName")
        return node in self.nodes and name_of(pod) != name_of(self.pod)

    # Quotas

    def used(self, namespaces: Iterable[str], present: Iterable[Json]) -> Counter[str]:
        """What these namespaces use while these pods are there; names that pods ask nothing of are kept."""
        total, those = Counter[str](), set(namespaces)
        for pod in present:
            if namespace_of(pod) in those:
                total.update(request(pod))
        return total

    def is_over_min(self, namespace: str, present: Iterable[Json]) -> bool:
        """Whether a namespace uses more than its min while these pods are there."""
        used = self.used([namespace], present)
        return any(amount > self.least[namespace][name] for name, amount in used.items())

    def exceeds_max(self, present: Iterable[Json], demand: Amounts) -> bool:
        """Whether the preemptor's namespace would use more than its max."""
        used, most = self.used([self.home], present), self.most[self.home]
        return any(used[name] + demand.get(name, 0) > most.get(name, math.inf) for name in {*demand, *_NAMED})

    def exceeds_all(self, present: Iterable[Json], demand: Amounts) -> bool:
        """Whether all would use more than the sum of min."""
        used, least = self.used(self.least, present), total_of(self.least.values())
        return any(used[name] + demand.get(name, 0) > least[name] for name in {*used, *demand})

    def is_barred(self, present: Sequence[Json], own: Amounts, everything: Amounts) -> bool:
        """Whether the preemptor's quota refuses it while these pods are there."""
        if self.home not in self.least:
            return False
        return self.exceeds_max(present, own) or self.exceeds_all(present, everything)

    # Nodes

    def lacks(self, node: str, present: Iterable[Json]) -> bool:
        """Whether the node has no room for the preemptor while these pods are there."""
        guests = [pod for pod in present if pod["spec"]["nodeName"] == node]
        at_least = priority_of(self.pod)
        guests += [
            pod for pod in self.nominated if pod["status"]["nominatedNodeName"] == node and priority_of(pod) >= at_least
        ]
        taken, has = total_of(request(pod) for pod in guests), self.nodes[node]
        need = request(self.pod)
        return len(guests) + 1 > has["pods"] or any(
            need[name] and taken[name] + need[name] > has[name] for name in need
        )

    def may_go(self, other: Json, present: Sequence[Json]) -> bool:
        """Whether a pod may be evicted while these are there."""
        less, namespace = priority_of(other) < priority_of(self.pod), namespace_of(other)
        if self.home not in self.least:
            return less and namespace not in self.least
        if namespace not in self.least:
            return False
        used = self.used([self.home], self.bound)
        if any(used[name] + amount > self.least[self.home][name] for name, amount in self._checked().items()):
            return namespace == self.home and less
        return namespace != self.home and self.is_over_min(namespace, present)

    def _checked(self) -> dict[str, int]:
        return {**dict.fromkeys(_NAMED, 0), **self.demand}

    def violating(self, pods: Iterable[Json]) -> list[Json]:
        """Those that budgets protect if all are evicted in this order."""
        left = [int((budget.get("status") or {}).get("disruptionsAllowed") or 0) for budget in self.budgets]
        found = []
        for pod in pods:
            hit = False
            for index, budget in enumerate(self.budgets):
                counted = (budget.get("status") or {}).get("disruptedPods") or {}
                if selects(budget, pod) and pod["metadata"]["name"] not in counted:
                    left[index] -= 1
                    hit = hit or left[index] < 0
            if hit:
                found.append(pod)
        return found

    def select(self, node: str) -> tuple[list[Json], int] | str:
        """Victims and violated budgets of a node, or the code of its refusal.

        Raises:
            LostNodeError: only with quirks.
        """
        present, potential = list(self.bound), []
        for pod in reversed(ranked(pod for pod in self.bound if pod["spec"]["nodeName"] == node)):
            if self.may_go(pod, present):
                present.remove(pod)
                potential.append(pod)
        if not potential:
            return "UnschedulableAndUnresolvable"
        need = request(self.pod)
        if any(need[name] > self.nodes[node][name] for name in need):
            return "UnschedulableAndUnresolvable"
        if self.lacks(node, present) or self.is_barred(present, need, need):
            return "Unschedulable"
        victims, violations = self._put_back(node, present, ranked(potential))
        return (ranked(victims), violations) if victims else "Error"

    def _put_back(self, node: str, present: list[Json], potential: list[Json]) -> tuple[list[Json], int]:
        protected = self.violating(potential)
        victims, violations = [], 0
        for pod in protected + [pod for pod in potential if pod not in protected]:
            in_the_way = self.lacks(node, [*present, pod])
            rest = present if self.quirks and in_the_way else [*present, pod]
            barred = self.is_barred(rest, self.demand, self.whole_demand)
            if self.quirks and in_the_way and barred:
                raise LostNodeError(node)
            if in_the_way or barred:
                victims.append(pod)
                violations += pod in protected and (in_the_way or not self.quirks)
            else:
                present.append(pod)
        return victims, violations


def preempt(vector: Json, *, quirks: bool) -> dict[str, Any]:
    """The candidates, the codes of rejected nodes, and what happens to the best; eligibility is not looked at."""
    world = World(vector, quirks=quirks)
    found: dict[str, tuple[list[Json], int]] = {}
    codes: dict[str, str] = {}
    for node in sorted(name for name in world.nodes if world.statuses.get(name) != "UnschedulableAndUnresolvable"):
        try:
            answer = world.select(node)
        except LostNodeError:
            answer = "Error"
        if isinstance(answer, str):
            codes[node] = answer
        else:
            found[node] = answer
    candidates = [
        {"node": node, "victims": [name_of(pod) for pod in victims], "numPDBViolations": violations}
        for node, (victims, violations) in found.items()
    ]
    rejected = {node: {"code": code} for node, code in codes.items()}
    return {"candidates": candidates, "rejectedNodes": rejected, "postFilter": _outcome(found, codes)}


def _outcome(found: Mapping[str, tuple[list[Json], int]], codes: Mapping[str, str]) -> dict[str, Any]:
    if not found:
        failed = "Error" in codes.values()
        return {
            "code": "Error" if failed else "Unschedulable",
            "nominatedNode": None if failed else "",
            "deleted": [],
        }
    best = sorted(found)
    for cost in (_violations, _highest, _sum, _count):
        least = min(cost(*found[node]) for node in best)
        best = [node for node in best if cost(*found[node]) == least]
    oldest = {
        node: min(start_of(pod) for pod in found[node][0] if priority_of(pod) == _highest(*found[node]))
        for node in best
    }
    chosen = max(best, key=lambda node: oldest[node])
    gone = sorted(name_of(pod) for pod in found[chosen][0] if not pod["metadata"].get("deletionTimestamp"))
    return {"code": "Success", "nominatedNode": chosen, "deleted": gone}


def _violations(_victims: Sequence[Json], violations: int) -> int:
    return violations


def _highest(victims: Sequence[Json], _violations: int) -> int:
    return priority_of(victims[0])


def _sum(victims: Sequence[Json], _violations: int) -> int:
    return sum(priority_of(pod) + 2**31 for pod in victims)


def _count(victims: Sequence[Json], _violations: int) -> int:
    return len(victims)
