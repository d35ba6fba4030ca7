"""Whatever the parser puts in force, a real API server accepts as a NodeMetric, and stores as it was sent."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import crds
from crds import names
from crds.colocation import ALLOWED
from crds.models import MODELS
from crds.predict_policy import RANGES
from crds.ranges import Range
from headroom import kube
from manager import node_metric
from manager.config.in_force import at_start
from manager.config.merge import effective_strategy
from tests.crds.installing import install

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

    from tools.devcluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.long]
Json = dict[str, Any]
TRIES = 600


def _number(rule: Range) -> "SearchStrategy[int]":
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
def _parameters(draw: "DrawFn", model: str) -> Json:
    found: Json = {}
    for name, rule in MODELS.get(model, {}).items():
        if draw(st.booleans()):
            found[name] = draw(st.floats(rule.low, rule.high) if isinstance(rule, Range) else st.booleans())
    return found if model in MODELS else draw(st.dictionaries(st.text(max_size=8), FREE, max_size=4))


@st.composite
def _choice(draw: "DrawFn", depth: int = 0) -> Json:
    """A model, with parameters, combining others; fields are missing, and their names misspelt, now and then."""
    model = draw(NAMES)
    found: Json = {"model" if draw(st.integers(0, 9)) else "Model": model}
    if draw(st.booleans()):
        found["parameters"] = draw(_parameters(model) | st.none())
    if model in {"max", "theirs"} and depth < 5 and draw(st.integers(0, 20)):
        some = draw(st.lists(_choice(depth + 1), min_size=1, max_size=2))
        found["of"] = some * draw(st.sampled_from([1] * 12 + [8, 16, 17]))
    return found


@st.composite
def _policy(draw: "DrawFn") -> Json:
    found = draw(_choice()) if draw(st.booleans()) else {}
    for name, rule in RANGES.items():
        if not draw(st.integers(0, 2)):
            assert isinstance(rule, Range)
            found[name] = draw(_number(rule))
    for name in ("cpu", "memory"):
        if not draw(st.integers(0, 3)):
            margin = {"safetyMarginPercent": draw(st.integers(0, 100))} if draw(st.booleans()) else {}
            found[name] = {**(draw(_choice()) if draw(st.booleans()) else {}), **margin}
    return found


@st.composite
def _strategy(draw: "DrawFn") -> Json:
    found: Json = {"enable": draw(st.sampled_from([True, True, False]))}
    if draw(st.integers(0, 4)):
        found["nodePredictPolicy"] = draw(_policy())
    for name in ("metricAggregateDurationSeconds", "metricReportIntervalSeconds"):
        rule = ALLOWED[name]
        assert isinstance(rule, Range)
        if not draw(st.integers(0, 3)):
            found[name] = draw(_number(rule))
    if draw(st.booleans()):
        found["metricMemoryCollectPolicy"] = draw(st.sampled_from(["usageWithPageCache", "usageWithHotPageCache"]))
    if draw(st.booleans()):
        texts = st.sampled_from(["5m", "1h", "90s", "1500ms", "0.1s", "168h"])
        found["metricAggregatePolicy"] = {"durations": draw(st.lists(texts, max_size=11))}
    return found


def _in_force() -> list[Json]:
    """NodeMetrics as the manager would apply them, for configs, entries and annotations of all kinds."""
    found: dict[str, Json] = {}

    @settings(max_examples=TRIES, derandomize=True, database=None)
    @given(cluster=_strategy(), entry=_strategy(), annotation=_strategy())
    def judge(cluster: Json, entry: Json, annotation: Json) -> None:
        text = json.dumps({**cluster, "nodeConfigs": [{"nodeSelector": {"matchLabels": {"a": "b"}}, **entry}]})
        # A text that is refused may have been accepted by an older version: what is left of it is in force then.
        config = at_start(text, present=True, last_good=text).config
        noted = {names.ANNOTATION_COLOCATION_STRATEGY: json.dumps(annotation)}
        for labels, annotations in (({}, {}), ({"a": "b"}, {}), ({"a": "b"}, noted)):
            effective = effective_strategy(config, labels, annotations)
            body = node_metric.manifest("accepted", "0f7b5cd5-2f3a-44b2-9d4e-3c3a0a5f7c11", effective.strategy)
            found.setdefault(json.dumps(body["spec"], sort_keys=True), body)

    judge()
    return list(found.values())


async def test_what_the_parser_accepts_is_accepted(cluster: "Cluster") -> None:
    """No config, entry or annotation that is in force is refused as a NodeMetric, or stored as something else."""
    bodies = _in_force()
    assert len(bodies) > TRIES / 2
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

        wrong = [each for each in await asyncio.gather(*(applied(body) for body in bodies)) if each]
    assert not wrong, f"{len(wrong)} of {len(bodies)}, such as {wrong[0][:2000]}"
