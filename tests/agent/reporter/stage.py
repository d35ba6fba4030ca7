"""A publisher on a stage: an API server in memory, fake reports, and a clock that only the test moves."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from agent.metrics import Metrics
from agent.prediction.node import NodePrediction
from agent.prediction.readiness import Readiness
from agent.reporter.publisher import Publisher
from agent.reporter.reporter import Report, ReportBuilder
from agent.reporter.schedule import phase_of
from agent.reporter.spec import SpecInForce
from agent.settings import ReportSettings
from crds.meta import Condition
from crds.predict_policy import DEFAULTS
from headroom.kube import ApiError, ApiServer
from tests.support.api import FakeApi
from tests.support.objects import Json

NAME = "worker"
PATH = f"/apis/slo.koordinator.sh/v1alpha1/nodemetrics/{NAME}"
READY = Readiness(ready=True, reason="Ready", message="fine")
PREDICTION = NodePrediction(0.0, DEFAULTS, {}, 1, (), {"cpu": 1000, "memory": 1 << 30}, {"cpu": 500}, {}, READY)
NO_JITTER = ReportSettings(jitter=0.0)


def moment(interval_seconds: float) -> float:
    """A moment at which the node reports when it does so in this interval, which divides a minute."""
    return 1_699_999_980.0 + interval_seconds * phase_of(NAME)


START = moment(60)


def moved(cpu: int) -> NodePrediction:
    """The prediction with another reclaimable CPU. [milli-cores]"""
    return replace(PREDICTION, reclaimable={"cpu": cpu, "memory": 1 << 30})


@dataclass
class FakeReports:
    prediction: NodePrediction = PREDICTION
    problems: list[str] = field(default_factory=list)
    workloads: tuple[str, ...] = ()
    previous: tuple[Condition, ...] = ()
    generation: int | None = None
    broken: bool = False
    measured: bool = True
    predictions: int = 0
    made: int = 0

    def predict(self, now: float, spec: SpecInForce) -> NodePrediction:
        del now, spec
        self.predictions += 1
        return self.prediction

    def full(
        self, now: float, spec: SpecInForce, previous: Sequence[Condition] = (), problems: Sequence[str] = ()
    ) -> Report:
        self.made += 1
        if self.broken:
            raise RuntimeError("the database is damaged")
        status = FakeReports.fast(self, now, spec, self.prediction, previous, problems).status
        measured = {"updateTime": f"{now:.0f}"} if self.measured else {}
        if self.workloads:
            status["workloads"] = list(self.workloads)
        return Report({"podsMetric": [], "nodeMetric": {}, **status, **measured}, self.prediction)

    def fast(
        self,
        now: float,
        spec: SpecInForce,
        prediction: NodePrediction,
        previous: Sequence[Condition] = (),
        problems: Sequence[str] = (),
    ) -> Report:
        del now
        self.problems, self.previous, self.generation = list(problems), tuple(previous), spec.generation
        cpu = {"resource": {"resources": {"cpu": str(self.prediction.reclaimable["cpu"])}}}
        condition = {"type": "Collecting", "status": "True", "reason": self.prediction.readiness.reason}
        condition |= {"message": " ".join(problems)} if problems else {}
        policy = {"policy": {"parameters": {"n": 3}}}
        return Report({"prediction": policy, "prodReclaimableMetric": cpu, "conditions": [condition]}, prediction)


class NodeMetricApi(FakeApi):
    def __init__(self) -> None:
        super().__init__()
        self.put(PATH, {"metadata": {"name": NAME, "uid": "u1", "generation": 1}, "spec": {}})
        self.refuses: set[str] = set()  # keys of a status for which a patch is invalid

    async def metadata(self, path: str) -> Json:
        self._enter("METADATA", path)
        return copy.deepcopy(dict(self._stored(path)["metadata"]))

    async def patch(self, path: str, body: Any, content_type: str = "", params: Any = None) -> Json:  # noqa: ANN401
        if self.refuses & body["status"].keys():
            raise ApiError(422, "Invalid", "must not be")
        return await super().patch(path, body, content_type, params)

    def edit(self, **parts: Json) -> None:
        result = {**self.objects[PATH], **parts}
        result["metadata"]["generation"] += "spec" in parts
        self.put(PATH, result)

    def recreate(self) -> None:
        self.put(PATH, {"metadata": {"name": NAME, "uid": "u2", "generation": 1}, "spec": {}})


class Stage:
    def __init__(self, settings: ReportSettings = NO_JITTER) -> None:
        self.api, self.reports, self.time = NodeMetricApi(), FakeReports(), START
        self.publisher = Publisher(
            cast("ApiServer", self.api),
            NAME,
            cast("ReportBuilder", self.reports),
            settings,
            Metrics(NAME),
            lambda: self.time,
            lambda: self.time,
        )

    @property
    def status(self) -> Json:
        result: Json = self.api.objects[PATH]["status"]
        return result

    def conditions(self) -> list[Json]:
        return list(self.api.objects[PATH].get("status", {}).get("conditions", []))

    def patches(self) -> list[Json]:
        return [body["status"] for body in self.api.written("PATCH", PATH)]

    def events(self) -> list[Json]:
        return list(self.api.written("POST", "/events"))

    def reasons(self) -> list[str]:
        return [event["reason"] for event in self.events()]

    def metric(self, name: str, **labels: str) -> float:
        return self.publisher.metrics.registry.get_sample_value(f"headroom_agent_{name}", labels) or 0.0
