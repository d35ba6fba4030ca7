"""The manager's writes to NodeMetrics beside other writers, on a real API server with the chart's rights."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import crds
from agent.metrics import Metrics
from agent.reporter.publisher import Publisher
from agent.reporter.reporter import Report, ReportBuilder
from agent.reporter.spec import SpecInForce
from crds import names
from crds.colocation import ALLOWED
from crds.models import MODELS
from crds.predict_policy import RANGES
from crds.ranges import Range
from crds.workload_history import WorkloadUsage, workload_id
from headroom import kube
from manager import node_metric
from manager.config.in_force import at_start
from manager.config.merge import effective_strategy
from tests.agent.reporter.stage import NO_JITTER, PREDICTION, FakeReports
from tests.crds.installing import install
from tests.manager.stage import METRICS, PUBLISHED, ROOT, Manager, Stage, prepared
from tests.support.waiting import eventually
from tools.devcluster import Cluster
from tools.devcluster.api import ApiError

pytestmark = pytest.mark.cluster

Json = dict[str, Any]


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    with prepared(cluster, "node-metric-test") as stage:
        yield stage


def _config(stage: Stage, **fields: object) -> Json:
    ours = {"name": "ours", "nodeSelector": {"matchLabels": stage.pool}, **PUBLISHED, **fields}
    return {"nodeConfigs": [ours]}


@pytest.fixture(scope="module")
def manager(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    path = tmp_path_factory.mktemp("manager")
    stage.configure(_config(stage))
    manager = Manager(stage.login(path / "kubeconfig"), path / "manager.log", stage.namespace)
    manager.start()
    try:
        yield manager
    finally:
        code = manager.stop()
    assert code == 0, manager.log_text()
    assert "Traceback" not in manager.log_text()
    assert "orbidden" not in manager.log_text()


def _policy(stage: Stage, node: str) -> Json:
    result: Json = stage.found(f"{METRICS}/{node}").get("spec", {}).get("predictPolicy", {})
    return result


def _conditions(stage: Stage, node: str) -> dict[str, tuple[str, str]]:
    listed = stage.found(f"{METRICS}/{node}").get("status", {}).get("conditions", [])
    return {item["type"]: (item["status"], item["reason"]) for item in listed}


def _expect_rest(stage: Stage, node: str) -> None:
    """Wait until a NodeMetric has no further writes; a right state may be transient."""
    rounds = iter(range(1000))

    def at_rest() -> bool:
        version = stage.found(f"{METRICS}/{node}")["metadata"]["resourceVersion"]
        stage.add_node(f"{node}-{next(rounds)}")
        return bool(stage.found(f"{METRICS}/{node}")["metadata"]["resourceVersion"] == version)

    eventually(at_rest, f"no further writes to the NodeMetric of {node}")


@pytest.mark.usefixtures("manager")
def test_fields_have_their_owners(stage: Stage) -> None:
    stage.configure(_config(stage, nodePredictPolicy={"memory": {"safetyMarginPercent": 20}}))
    stage.add_node("owners")
    eventually(lambda: _policy(stage, "owners").get("memory") == {"safetyMarginPercent": 20}, "our part is there")
    theirs = {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": "owners"},
        "spec": {"predictPolicy": {"cpu": {"safetyMarginPercent": 7}}},
    }
    stage.cluster.kubectl("apply", "--server-side", "--field-manager=theirs", "-f", "-", stdin=json.dumps(theirs))
    stage.configure(_config(stage))
    eventually(lambda: "memory" not in _policy(stage, "owners"), "our obsolete part is gone")
    assert _policy(stage, "owners")["cpu"] == {"safetyMarginPercent": 7}
    _expect_rest(stage, "owners")
    assert _policy(stage, "owners")["cpu"] == {"safetyMarginPercent": 7}


@dataclass
class Reports(FakeReports):
    def full(self, *args: Any, **more: Any) -> Report:  # noqa: ANN401 - whatever the base class takes
        report = super().full(*args, **more)
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        usage = {"resources": {"cpu": "6", "memory": "24Gi"}}
        conditions = [{**condition, "status": "True"} for condition in report.status["conditions"]]
        said = {
            "updateTime": moment,
            "nodeMetric": {"nodeUsage": usage, "systemUsage": usage},
            "conditions": conditions,
        }
        prediction = {"time": moment, "classes": []}
        reclaimable = {"resource": {"resources": {"cpu": "4", "memory": "10Gi"}}}
        status = {**report.status, **said, "prediction": prediction, "prodReclaimableMetric": reclaimable}
        return Report(status, report.prediction)

    def fast(self, now: float, spec: SpecInForce, *args: Any, **more: Any) -> Report:  # noqa: ANN401 - the same
        del args, more
        return self.full(now, spec)


@pytest.mark.usefixtures("manager")
def test_conditions_beside_the_agents(stage: Stage) -> None:
    stage.add_node("beside")
    expected = {
        "MidPublished": ("True", "Published"),
        "MidDeficit": ("False", "NoDeficit"),
        "MidPodsLimited": ("True", "Limited"),
    }

    async def report() -> int:
        reports = Reports()
        async with kube.ApiServer(kube.connect(str(stage.cluster.kubeconfig)), "headroom-agent") as api:
            publisher = Publisher(api, "beside", cast("ReportBuilder", reports), NO_JITTER, Metrics("beside"))
            for number in range(8):
                # Its own condition changes each time.
                readiness = PREDICTION.readiness._replace(reason=f"Round{number}")
                reports.prediction = replace(PREDICTION, readiness=readiness)
                await publisher.report()
                assert publisher.report_status.problem == ""
                enabled = number % 4 < 2  # and so do the manager's
                if number % 2 == 0:
                    await asyncio.to_thread(stage.configure, _config(stage, enable=enabled))
        return number

    last = asyncio.run(report())
    stage.configure(_config(stage))
    eventually(
        lambda: _conditions(stage, "beside") == {**expected, "Collecting": ("True", f"Round{last}")}, "both conditions"
    )
    _expect_rest(stage, "beside")


@contextmanager
def _definition_without(stage: Stage, path: Path, spec: Sequence[str], status: Sequence[str]) -> Iterator[None]:
    """Our definition without some fields, as long as the block takes."""
    ours = ROOT / "crds/node_metric.yaml"
    definition = yaml.safe_load(ours.read_text())
    properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    for part, fields in (("spec", spec), ("status", status)):
        for field in fields:
            del properties[part]["properties"][field]
    del definition["spec"]["versions"][0]["additionalPrinterColumns"]
    path.write_text(yaml.safe_dump(definition))
    stage.cluster.define(path)
    eventually(lambda: not _keeps(stage, spec[0]), "their definition is in force")
    try:
        yield
    finally:
        stage.cluster.define(ours)
        eventually(lambda: _keeps(stage, spec[0]), "our definition is in force")


@pytest.fixture
def koordinators_definition(stage: Stage, tmp_path: Path) -> Iterator[None]:
    """A definition that knows nothing of ours."""
    lacking = ("conditions", "prediction", "shadow", "workloads")
    with _definition_without(stage, tmp_path / "koordinators.yaml", ("predictPolicy", "workloadHistory"), lacking):
        yield


def _keeps(stage: Stage, field: str) -> bool:
    """Return whether the API server keeps a field of a NodeMetric's spec: a changed definition takes a moment."""
    kind = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": "probe"}}
    try:
        made = stage.cluster.api.request("POST", f"{METRICS}?dryRun=All", {**kind, "spec": {field: {}}})
    except ApiError:  # it is about to serve the definition again
        return False
    return field in made.get("spec", {})


@pytest.mark.usefixtures("koordinators_definition")
def test_koordinators_definition(stage: Stage, manager: Manager) -> None:
    """Under Koordinator's definition nodes get the NodeMetric that it allows, said once; Mid works; writes end."""
    stage.add_node("theirs")
    stage.report("theirs", "4")
    stage.expect_cpu("theirs", "4k")
    spec = stage.found(f"{METRICS}/theirs")["spec"]
    assert spec.keys() == {"metricCollectPolicy"}
    eventually(lambda: "has no field status.conditions" in manager.log_text(), "the log line")
    stage.report("theirs", "3")
    stage.expect_cpu("theirs", "3k")
    assert manager.log_text().count("has no field spec.predictPolicy") == 1
    tried = [
        request for request in stage.requests() if request.name == "theirs" and request.resource == "nodemetrics/status"
    ]
    assert len(tried) <= 2


def _report_workload(stage: Stage, node: str, usage: WorkloadUsage) -> tuple[bool, str]:
    """Report twice, as an agent: whether the workload is stored, and the message of Collecting."""

    async def report() -> None:
        reports = Reports(workloads=(str(usage),))
        async with kube.ApiServer(kube.connect(str(stage.cluster.kubeconfig)), "headroom-agent") as api:
            publisher = Publisher(api, node, cast("ReportBuilder", reports), NO_JITTER, Metrics(node))
            for _ in range(2):
                await publisher.report()
                assert publisher.report_status.problem == ""

    asyncio.run(report())
    status = stage.found(f"{METRICS}/{node}")["status"]
    conditions = {condition["type"]: condition for condition in status["conditions"]}
    return "workloads" in status, conditions["Collecting"].get("message", "")


def _histories(stage: Stage, node: str) -> Json:
    result: Json = stage.found(f"{METRICS}/{node}")["spec"].get("workloadHistory", {})
    return result


def test_workload_history_needs_its_fields(stage: Stage, manager: Manager, tmp_path: Path) -> None:
    """Cold pods' nodes get the history of other nodes; without the fields it is off, and a condition states that."""
    usage = WorkloadUsage(workload_id("shop/Deployment/cart"), 992, 1024, 48, 1, 0)
    reports = {"known-a": usage, "known-b": usage, "cold": replace(usage, cpu_milli=0, memory_mib=0, hours=0, cold=1)}
    history = {usage.id: {"cpu": "992m", "memory": "1Gi"}}
    for name in reports:
        stage.add_node(name)

    def is_handed_out() -> bool:
        """Agents report again and again: a watch from before a change of the definition omits fields for a while."""
        for name, workload in reports.items():
            assert _report_workload(stage, name, workload) == (True, "")
        return _histories(stage, "cold") == history

    eventually(is_handed_out, "the history is handed out")
    with _definition_without(stage, tmp_path / "older.yaml", ("workloadHistory",), ("workloads",)):
        is_stored, message = _report_workload(stage, "known-a", usage)
        assert not is_stored
        assert "drops status.workloads: install Headroom's" in message
        assert "the workload history is off" in message
        assert _histories(stage, "cold") == {}
    eventually(is_handed_out, "the history is handed out again")
    assert "Traceback" not in manager.log_text()


TRIES = 600


def _number(rule: Range) -> st.SearchStrategy[int]:
    """Its bounds, what lies between them, and what lies just beyond."""
    low, high = int(rule.low), int(rule.high)
    inside = st.sampled_from([low, high]) | st.integers(low, high)
    return st.integers(0, 30).flatmap(lambda luck: inside if luck else st.sampled_from([low - 1, high + 1]))


SOUND = [*MODELS, *["max"] * 10, *["theirs"] * 5, "m" * 63, "ä" * 63, "😀" * 40]
NAMES = st.sampled_from([*SOUND, *SOUND, "", " ", "m" * 64, "\ud800"])
FREE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([2**53, 2**53 + 1, 2**63, -(2**63), 10**39, 1e16, -0.0, "", "\x00\x1b\n", "\ud800", "x" * 17_000])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def _parameters(draw: st.DrawFn, model: str) -> Json:
    result: Json = {}
    for name, rule in MODELS.get(model, {}).items():
        if draw(st.booleans()):
            result[name] = draw(st.floats(rule.low, rule.high) if isinstance(rule, Range) else st.booleans())
    return result if model in MODELS else draw(st.dictionaries(st.text(max_size=8), FREE, max_size=4))


@st.composite
def _choice(draw: st.DrawFn, depth: int = 0) -> Json:
    """A model, with parameters, combining others; fields are missing, and their names misspelt, now and then."""
    model = draw(NAMES)
    result: Json = {"model" if draw(st.integers(0, 9)) else "Model": model}
    if draw(st.booleans()):
        result["parameters"] = draw(_parameters(model) | st.none())
    if model in {"max", "theirs"} and depth < 5 and draw(st.integers(0, 20)):
        some = draw(st.lists(_choice(depth + 1), min_size=1, max_size=2))
        result["of"] = some * draw(st.sampled_from([1] * 12 + [8, 16, 17]))
    return result


@st.composite
def _predict_policy(draw: st.DrawFn) -> Json:
    result = draw(_choice()) if draw(st.booleans()) else {}
    for name, rule in RANGES.items():
        if not draw(st.integers(0, 2)):
            result[name] = draw(_number(rule) if isinstance(rule, Range) else st.booleans())
    for name in ("cpu", "memory"):
        if not draw(st.integers(0, 3)):
            margin = {"safetyMarginPercent": draw(st.integers(0, 100))} if draw(st.booleans()) else {}
            result[name] = {**(draw(_choice()) if draw(st.booleans()) else {}), **margin}
    return result


@st.composite
def _strategy(draw: st.DrawFn) -> Json:
    result: Json = {"enable": draw(st.sampled_from([True, True, False]))}
    if draw(st.integers(0, 4)):
        result["nodePredictPolicy"] = draw(_predict_policy())
    for name in ("metricAggregateDurationSeconds", "metricReportIntervalSeconds"):
        rule = ALLOWED[name]
        assert isinstance(rule, Range)
        if not draw(st.integers(0, 3)):
            result[name] = draw(_number(rule))
    if draw(st.booleans()):
        result["metricMemoryCollectPolicy"] = draw(st.sampled_from(["usageWithPageCache", "usageWithHotPageCache"]))
    if draw(st.booleans()):
        texts = st.sampled_from(["5m", "1h", "90s", "1500ms", "0.1s", "168h"])
        result["metricAggregatePolicy"] = {"durations": draw(st.lists(texts, max_size=11))}
    return result


def _in_force() -> list[Json]:
    """NodeMetrics as the manager would apply them, for configs, entries and annotations of all kinds."""
    result: dict[str, Json] = {}

    @settings(max_examples=TRIES, derandomize=True, database=None)
    @given(cluster=_strategy(), entry=_strategy(), annotation=_strategy())
    def evaluate(cluster: Json, entry: Json, annotation: Json) -> None:
        text = json.dumps({**cluster, "nodeConfigs": [{"nodeSelector": {"matchLabels": {"a": "b"}}, **entry}]})
        # A text that is refused may have been accepted by an older version: its valid parts are in force then.
        config = at_start(text, present=True, last_good=text).config
        noted = {names.ANNOTATION_COLOCATION_STRATEGY: json.dumps(annotation)}
        for labels, annotations in (({}, {}), ({"a": "b"}, {}), ({"a": "b"}, noted)):
            effective = effective_strategy(config, labels, annotations)
            body = node_metric.manifest("accepted", "0f7b5cd5-2f3a-44b2-9d4e-3c3a0a5f7c11", effective.strategy)
            result.setdefault(json.dumps(body["spec"], sort_keys=True), body)

    evaluate()
    return list(result.values())


@pytest.mark.long
async def test_accepted_text_is_admitted(cluster: Cluster) -> None:
    bodies = _in_force()
    assert len(bodies) > TRIES / 4  # a text with one wrong part is not in force
    definition = yaml.safe_load((Path(crds.__file__).parent / "node_metric.yaml").read_text())
    query = {**node_metric.APPLY_PARAMETERS, "dryRun": "All"}
    gate = asyncio.Semaphore(16)
    async with kube.ApiServer(kube.connect(str(cluster.kubeconfig)), user_agent="headroom-tests") as api:
        await install(api, definition)

        async def applied(body: Json) -> str:
            async with gate:
                try:
                    answer = await api.patch(node_metric.path("accepted"), body, kube.APPLY, query)
                except kube.ApiError as error:
                    return f"refused: {error}: {json.dumps(body['spec'])}"
            matches = node_metric.ManagedFields.from_object(answer).matches(body)
            return "" if matches else f"stored as {json.dumps(answer['spec'])}: {json.dumps(body['spec'])}"

        wrong = [entry for entry in await asyncio.gather(*(applied(body) for body in bodies)) if entry]
    assert not wrong, f"{len(wrong)} of {len(bodies)}, such as {wrong[0][:2000]}"
