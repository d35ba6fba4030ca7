"""Vectors of elastic quotas that nobody recorded: adapters and rules hold for them, too."""

import math
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from hypothesis import strategies as st

from crds.quantity import parse_quantity
from tests.fuzz.strength import fuzz
from tests.golden.runner import Outcome, judge
from tests.scheduler_plugins.quota.things import GPU, node, pod, quota

Json = dict[str, Any]
Record = dict[str, int]

FINE = {Outcome.PASSED, Outcome.DEVIATION}
CORE = ("cpu", "memory", "ephemeral-storage", "pods")
UNLIMITED = 2**63 - 1


def _judged(given: Json, expected: Json) -> Outcome:
    judged = judge("elasticquota", {"name": "unseen", "input": given, "expected": expected, "source": ""})
    assert judged.outcome in FINE, (judged.detail, given)
    return judged.outcome


# The peer, in records


def _record(listed: Mapping[str, Any] | None) -> Record:
    return {
        name: math.ceil(parse_quantity(amount) * (1000 if name == "cpu" else 1))
        for name, amount in (listed or {}).items()
    }


def _sum(records: Iterable[Record]) -> Record:
    total: Record = {}
    for each in records:
        for name, amount in each.items():
            total[name] = total.get(name, 0) + amount
    return total


def _most(spec: Json) -> Record:
    given = spec.get("max")
    missing = UNLIMITED if given is None else 0
    return {**dict.fromkeys(CORE[:3], missing), **_record(given)}


def _over(request: Record, used: Record, bounds: Record, missing: int) -> bool:
    """The scalars of the request, and the core resources."""
    if any(request.get(name, 0) + used.get(name, 0) > bounds.get(name, 0) for name in CORE):
        return True
    scalars = [name for name in request if name not in CORE]
    return any(request[name] + used.get(name, 0) > bounds.get(name, missing) for name in scalars)


def _shown(record: Record) -> Json:
    words = zip(("milliCPU", "memory", "ephemeralStorage", "pods"), CORE, strict=True)
    scalars = {name: amount for name, amount in record.items() if name not in CORE}
    return {**{word: record.get(name, 0) for word, name in words}, "scalar": scalars}


def _request(item: Json) -> Record:
    spec = item["spec"]
    total = _sum(_record(each["resources"]["requests"]) for each in spec["containers"])
    for each in spec.get("initContainers") or ():
        for name, amount in _record(each["resources"]["requests"]).items():
            total[name] = max(total.get(name, amount), amount)
    return _sum([total, _record(spec.get("overhead"))])


# Vectors


def _amounts(lot: random.Random, most: int = 6) -> Json:
    found = {"cpu": f"{lot.randint(0, most)}", "memory": str(lot.randint(0, most)), GPU: str(lot.randint(0, most))}
    return {name: amount for name, amount in found.items() if lot.random() < 0.7}


def _pod(lot: random.Random, name: str, **fields: Any) -> Json:  # noqa: ANN401 - as `pod` has them
    made = pod(name, lot.choice(["ns1", "ns1", "ns2", "free"]), {"cpu": "0"}, **fields)
    made["spec"]["containers"][0]["resources"]["requests"] = _amounts(lot, 3)
    if lot.random() < 0.3:
        made["spec"]["initContainers"] = [{"name": "i", "resources": {"requests": _amounts(lot, 4)}}]
    if lot.random() < 0.2:
        made["spec"]["overhead"] = {"cpu": "250m"}
    return made


def _quota(lot: random.Random, namespace: str, name: str = "q") -> Json:
    bounds = [_amounts(lot, 12) if lot.random() < 0.8 else None for _ in range(2)]
    made = quota(namespace, *bounds, name=name)
    del made["metadata"]["creationTimestamp"], made["metadata"]["uid"]
    return made


def _compared(lot: random.Random) -> tuple[Json, Json]:
    used, request, bounds = (_amounts(lot) for _ in range(3))
    given: Json = {"used": used, "podRequest": request}
    if lot.random() < 0.5:
        over = _over(_record(request), _record(used), _record(bounds), 0)
        return {**given, "op": "used_over_min_with", "min": bounds}, {"over": over}
    over = _over(_record(request), _record(used), _record(bounds), UNLIMITED)
    return {**given, "op": "used_over_max_with", "max": bounds}, {"over": over}


def _over_min(lot: random.Random) -> tuple[Json, Json]:
    used, bounds = _amounts(lot), _amounts(lot)
    return {"op": "used_over_min", "used": used, "min": bounds}, {"over": _over(_record(used), {}, _record(bounds), 0)}


def _pod_request(lot: random.Random) -> tuple[Json, Json]:
    item = _pod(lot, "p")
    return {"op": "pod_request", "pod": item}, _shown(_request(item))


def _prefilter(lot: random.Random) -> tuple[Json, Json]:
    quotas = {name: _quota(lot, name) for name in ("ns1", "ns2")}
    used = {name: _amounts(lot, 8) for name in quotas}
    nominated = [
        _pod(lot, f"n{number}", priority=lot.choice([0, 5]), nominated=lot.choice(["n1", "no"])) for number in range(3)
    ]
    pods = [_pod(lot, f"p{number}", priority=lot.choice([0, 5])) for number in range(3)]
    records = {name: _record(each) for name, each in used.items()}
    least = {name: _record(each["spec"].get("min")) for name, each in quotas.items()}
    codes = []
    for item in pods:
        namespace = item["metadata"]["namespace"]
        own = everything = _request(item)
        for each in nominated:
            where = each["metadata"]["namespace"]
            if each["status"]["nominatedNodeName"] != "n1" or where not in quotas:
                continue
            if where == namespace:
                if each["spec"]["priority"] >= item["spec"]["priority"]:
                    own, everything = _sum([own, _request(each)]), _sum([everything, _request(each)])
            elif not _over(records[where], {}, least[where], 0):
                everything = _sum([everything, _request(each)])
        refused = namespace in quotas and (
            _over(own, records[namespace], _most(quotas[namespace]["spec"]), UNLIMITED)
            or _over(_sum([*records.values(), everything]), {}, _sum(least.values()), 0)
        )
        codes.append("Unschedulable" if refused else "Success")
    elastic = [{"quota": quotas[name], "used": used[name]} for name in quotas]
    given = {"elasticQuotas": elastic, "pods": pods, "nominatedPods": nominated, "nodes": [node("n1", cpu="9")]}
    return {"op": "prefilter", **given}, {"codes": codes}


def _sequence(lot: random.Random) -> tuple[Json, Json]:
    item, reserve = _quota(lot, "ns1"), lot.random() < 0.5
    pods = [_pod(lot, f"p{number}") for number in range(4)]
    cached = [each["metadata"]["uid"] for each in pods if each["metadata"]["namespace"] == "ns1" and lot.random() < 0.5]
    used = _sum([_record(_amounts(lot)), *(_request(each) for each in pods if each["metadata"]["uid"] in cached)])
    listed = {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in used.items()}
    there, states = set(cached), []
    for each in pods:
        uid, here = each["metadata"]["uid"], each["metadata"]["namespace"] == "ns1"
        if here and reserve != (uid in there):
            sign = 1 if reserve else -1
            used = _sum([used, {name: sign * amount for name, amount in _request(each).items()}])
            there ^= {uid}
        states.append({"used": _shown(used), "pods": sorted(there)})
    given = {"elasticQuotas": [{"quota": item, "used": listed}], "cachedPods": cached, "pods": pods}
    return {"op": f"{'' if reserve else 'un'}reserve_sequence", **given}, {"ns1": states}


class Peer:
    """The ledger of ns1 as the peer keeps it, with all its gaps."""

    def __init__(self) -> None:
        self.spec: Json | None = None
        self.used: Record = {}
        self.pods: dict[str, Json] = {}

    def step(self, kind: str, given: Any) -> None:  # noqa: ANN401 - an object, or old and new
        """One event."""
        item = given[1] if kind.startswith("update") else given
        if item["metadata"]["namespace"] != "ns1":
            return
        uid = item["metadata"].get("uid")
        if kind == "deleteQuota":
            self.spec, self.used, self.pods = None, {}, {}
        elif kind == "updateQuota" or (kind == "addQuota" and self.spec is None):
            self.spec = item["spec"]
        elif self.spec is None or kind == "addQuota":
            return
        elif kind == "addPod" and uid not in self.pods:
            self._add(item, 1)
        elif uid in self.pods and self._releases(kind, given):
            self._add(item, -1)

    @staticmethod
    def _releases(kind: str, given: Any) -> bool:  # noqa: ANN401 - an object, or old and new
        if kind != "updatePod":
            return kind == "deletePod"
        old, new = (each["status"]["phase"] for each in given)
        return old not in ("Succeeded", "Failed") and new not in ("Running", "Pending")

    def _add(self, item: Json, sign: int) -> None:
        self.used = _sum([self.used, {name: sign * amount for name, amount in _request(item).items()}])
        if sign > 0:
            self.pods[item["metadata"]["uid"]] = item
        else:
            del self.pods[item["metadata"]["uid"]]

    def state(self) -> Json | None:
        """What it tells."""
        if self.spec is None:
            return None
        bounds = {"min": _shown(_record(self.spec.get("min"))), "max": _shown(_most(self.spec))}
        return {**bounds, "used": _shown(self.used), "pods": sorted(self.pods)}


def _events(lot: random.Random) -> tuple[Json, Json]:
    peer, steps, pods, quotas = Peer(), list[Json](), dict[str, Json](), dict[str, Json]()

    def step(kind: str, given: Any) -> None:  # noqa: ANN401 - an object, or old and new
        steps.append({kind: given})
        peer.step(kind, given)

    for number in range(lot.randint(1, 10)):
        what = lot.random()
        if what < 0.25:
            made = _quota(lot, "ns1", lot.choice(["q", "q", "r"]))
            name = made["metadata"]["name"]
            step(*(("updateQuota", [quotas[name], made]) if name in quotas else ("addQuota", made)))
            quotas[name] = made
        elif what < 0.32 and quotas:
            step("deleteQuota", quotas.pop(lot.choice(list(quotas))))
        elif what < 0.65:
            pods[str(number)] = _pod(lot, f"p{number}", node="n1")
            step("addPod", pods[str(number)])
        elif what < 0.85 and pods:
            key = lot.choice(list(pods))
            old, phase = pods[key], lot.choice(["Running", "Running", "Succeeded", "Unknown"])
            if old["status"]["phase"] == "Running":
                pods[key] = {**old, "status": {"phase": phase}}
                if lot.random() < 0.2:
                    again = {**_pod(lot, "again", node="n1"), "metadata": old["metadata"], "status": {"phase": phase}}
                    pods[key] = again
                step("updatePod", [old, pods[key]])
        elif pods:
            step("deletePod", pods.pop(lot.choice(list(pods))))
    return {"op": "events", "steps": steps}, {"ns1": peer.state()}


MADE = {
    "comparison": _compared,
    "over min": _over_min,
    "pod request": _pod_request,
    "prefilter": _prefilter,
    "sequence": _sequence,
    "events": _events,
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE.keys())
@fuzz(seed=st.integers(0, 2**32))
def test_answers_match_the_peer(made: Callable[[random.Random], tuple[Json, Json]], seed: int) -> None:
    """What the peer would answer, or what a rule says instead; the rules are about events alone."""
    given, expected = made(random.Random(seed))  # noqa: S311 - a repeatable test
    outcome = _judged(given, expected)
    assert outcome is Outcome.PASSED or made is _events
