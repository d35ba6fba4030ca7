"""Koordinator's rule, read a second time: pod by pod as its documentation tells it, against ours on many inputs."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from crds.priority import priority_class
from tests.golden.adapters.peak_predictor import OPERATIONS
from tests.golden.adapters.pods import kubernetes_pod
from tests.golden.results import difference
from tests.golden.rules.peak_predictor import RULES
from tests.golden.rules.rule import Deviation

UIDS = ("a", "b", "c", "d")
CLASSES = ("__node-sys__", "__node-koord-prod__", "__node-__")
CPU, MEMORY = "cpu", "memory"

_PODS = st.fixed_dictionaries(
    {
        "uid": st.sampled_from(UIDS),
        "ageSeconds": st.sampled_from([0, 3599, 3600, 3601, 90000]),
        "containers": st.lists(
            st.fixed_dictionaries(
                {
                    "requests": st.fixed_dictionaries(
                        {},
                        optional={
                            CPU: st.integers(0, 9000).map("{}m".format),
                            MEMORY: st.integers(0, 1 << 34).map(str),
                        },
                    )
                }
            ),
            min_size=1,
            max_size=2,
        ),
    },
    optional={
        "priority": st.sampled_from([9000, 9500, 7500, 5000, 0]),
        "phase": st.sampled_from(["Running", "Failed", "Succeeded"]),
        "deletionTimestampSet": st.booleans(),
        "labels": st.sampled_from([{"koordinator.sh/priority-class": "koord-prod"}, {"koordinator.sh/qosClass": "BE"}]),
    },
)
_AMOUNTS = st.fixed_dictionaries(
    {}, optional={CPU: st.integers(0, 5000).map("{}m".format), MEMORY: st.integers(0, 1 << 33).map(str)}
)
_PREDICTION = st.fixed_dictionaries({}, optional={"p95": _AMOUNTS, "p98": _AMOUNTS})
_VECTORS = st.fixed_dictionaries(
    {
        "coldStartSeconds": st.just(3600),
        "node": st.one_of(
            st.none(),
            st.just({"name": "n"}),
            st.integers(0, 30).map(
                lambda size: {"name": "n", "allocatable": {CPU: str(size), MEMORY: f"{size}Gi"}, "annotations": {}}
            ),
        ),
        "pods": st.lists(_PODS, max_size=6),
        "predictions": st.fixed_dictionaries(
            {
                "byUID": st.dictionaries(st.sampled_from(UIDS + CLASSES), _PREDICTION),
                "default": st.one_of(st.none(), _PREDICTION),
                "defaultIsError": st.booleans(),
            }
        ),
        "safetyMarginPercent": st.integers(0, 100),
    }
)


def _milli(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def _bytes(text: str) -> int:
    return int(text[:-2]) << 30 if text.endswith("Gi") else int(text)


class Reference:
    """The rule as it is documented: one pod after the other, then the results."""

    def __init__(self, vector: dict[str, Any]) -> None:
        self.vector = vector
        self.factor = float(100 + vector["safetyMarginPercent"]) / 100
        self.seen: set[str] = set()
        self.errors: list[str] = []
        self.reclaimable, self.used, self.unpredicted, self.requested = [0, 0], [0, 0], [0, 0], [0, 0]
        for pod in vector["pods"]:
            if str(priority_class(kubernetes_pod(pod))) in ("koord-prod", ""):
                self._add(pod)

    def _model(self, uid: str) -> dict[str, Any] | None:
        known = self.vector["predictions"]
        if uid in known["byUID"]:
            found: dict[str, Any] = known["byUID"][uid]
            return found
        return None if known["defaultIsError"] else known["default"] or {}

    def _amounts(self, model: dict[str, Any]) -> list[int | None]:
        cpu, memory = model.get("p95", {}).get(CPU), model.get("p98", {}).get(MEMORY)
        return [None if cpu is None else _milli(cpu), None if memory is None else _bytes(memory)]

    def _add(self, pod: dict[str, Any]) -> None:
        requests = [0, 0]
        for container in pod["containers"]:
            requests[0] += _milli(container["requests"].get(CPU, "0m"))
            requests[1] += _bytes(container["requests"].get(MEMORY, "0"))
        gone = bool(pod.get("deletionTimestampSet")) or pod.get("phase") in ("Failed", "Succeeded")
        if pod["uid"] in self.seen:
            self.errors.append(pod["uid"])
            return
        self.seen.add(pod["uid"])
        if pod["ageSeconds"] <= self.vector["coldStartSeconds"]:
            self._sum(self.unpredicted, requests)
        elif not gone:
            model = self._model(pod["uid"])
            if model is None:
                self._sum(self.unpredicted, requests)
                self.errors.append(pod["uid"])
                return
            for place, amount in enumerate(self._amounts(model)):
                if amount is not None:
                    peak = int(float(amount) * self.factor)
                    self.used[place] += peak
                    self.reclaimable[place] += max(0, requests[place] - peak)
        if not gone:
            self._sum(self.requested, requests)

    @staticmethod
    def _sum(total: list[int], amounts: list[int]) -> None:
        for place, amount in enumerate(amounts):
            total[place] += amount

    def answer(self) -> dict[str, Any]:
        """All results."""
        node = self.vector["node"]
        room = None
        if node is not None and "allocatable" in node:
            room = [_milli(node["allocatable"][CPU]), _bytes(node["allocatable"][MEMORY])]
        pod_peak = [used + unpredicted for used, unpredicted in zip(self.used, self.unpredicted, strict=True)]
        pod = room and [min(max(room[n] - self.used[n], 0), self.reclaimable[n]) for n in (0, 1)]
        models = [self._model(uid) for uid in CLASSES]
        peak = joint = None
        if all(model is not None for model in models):
            sums = [sum(self._amounts(model or {})[n] or 0 for model in models) for n in (0, 1)]
            peak = [int(float(amount) * self.factor) for amount in sums]
            joint = room and [min(max(room[n] - peak[n], 0), max(self.requested[n] - peak[n], 0)) for n in (0, 1)]
        return {
            "addPodErrorUIDs": self.errors,
            "podReclaimable": _shown(pod),
            "podPeak": _shown(pod_peak),
            "priorityReclaimable": _shown(joint),
            "priorityPeak": _shown(peak),
            "reclaimable": _shown(pod and joint and [min(pod[n], joint[n]) for n in (0, 1)]),
            "peak": _shown(peak and [max(pod_peak[n], peak[n]) for n in (0, 1)]),
        }


def _shown(amounts: list[int] | None) -> dict[str, Any]:
    return {"error": True} if amounts is None else {CPU: f"{amounts[0]}m", MEMORY: str(amounts[1])}


@settings(max_examples=60, deadline=None)
@given(vector=_VECTORS)
def test_rule_agrees_with_reference(vector: dict[str, Any]) -> None:
    """On any pods, predictions and node, every result is the reference's to the last unit."""
    expected = Reference(vector).answer()
    assert difference(expected, OPERATIONS["prod_reclaimable"](vector), None) is None


_USAGE = st.tuples(st.floats(0, 8), st.integers(0, 1 << 33)).map(list)
_TRAINING = st.fixed_dictionaries(
    {
        "pods": st.lists(
            st.fixed_dictionaries(
                {"uid": st.sampled_from(UIDS)}, optional={"priority": st.sampled_from([9500, 7500, 5500, 3500, 10])}
            ),
            max_size=4,
            unique_by=lambda pod: pod["uid"],
        ),
        "rounds": st.lists(
            st.fixed_dictionaries(
                {
                    "gap": st.sampled_from([60, 60, 60, 120, 600, 86400]),
                    "nodeCPU": st.floats(0, 64),
                    "nodeMemory": st.integers(0, 1 << 36),
                    "nodeMetricError": st.booleans(),
                    "podUsage": st.dictionaries(st.sampled_from(UIDS), _USAGE),
                }
            ),
            min_size=1,
            max_size=5,
        ),
    }
)


@settings(max_examples=25, deadline=None)
@given(vector=_TRAINING)
def test_training_follows_measurements(vector: dict[str, Any]) -> None:
    """Whatever is missing in whichever round, what was learned is what the deviation rule says, and nothing else."""
    now = 1_700_000_000
    for one in vector["rounds"]:
        now += one.pop("gap")
        one["atUnix"] = now
    (rule,) = (one for one in RULES if isinstance(one, Deviation) and "training" in one.operations)
    uids = [*UIDS, "__node__", *(f"__node-{name}__" for name in ("sys", "koord-prod", "koord-mid", "koord-batch"))]
    expected = rule.ours(vector, {"predictions": dict.fromkeys(uids)})
    steady = {uid: one for uid, one in expected["predictions"].items() if one is not None}
    actual = OPERATIONS["training"](vector)
    assert actual["modelUIDs"] == expected["modelUIDs"]
    assert difference(steady, actual["predictions"], None) is None
