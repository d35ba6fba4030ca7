"""The NodeMetric's spec: what the manager, or anybody with kubectl, asks of the agent."""

import math

from hypothesis import strategies as st

from agent.prediction.policy import in_force, resolve
from agent.predictors import PolicyError
from agent.reporter import spec as specs
from crds.codec import CodecError, from_json, to_json
from crds.node_metric import NodeMetric
from crds.predict_policy import DEFAULTS, PredictPolicy
from tests.fuzz.inputs import Json, any_json, objects
from tests.fuzz.originals import POLICY, SPEC
from tests.fuzz.strength import LONGEST_LINE, answer_or_refusal, fuzz

LONGEST_SECONDS = 10 * 366 * 86400


@fuzz(policy=objects(POLICY))
def test_policy(policy: Json) -> None:
    """A policy is followed, or the last good one stays in force with the reason, which names the field."""
    parsed = answer_or_refusal(lambda: from_json(PredictPolicy, policy), CodecError)
    if parsed is None:
        return
    found = answer_or_refusal(lambda: resolve(parsed), PolicyError, "predictPolicy")
    assert (in_force(parsed, DEFAULTS).problem == "") == (found is not None)
    if found is not None:
        assert 0.0 <= found.reclaim_ratio <= 1.0
        assert 0.0 <= found.cold_start_seconds <= 2592000
        assert all(1.0 <= one.margin <= 2.0 for one in found.models.values())


@fuzz(spec=objects(SPEC) | st.none())
def test_spec(spec: Json) -> None:
    """The spec that is obeyed has every default, and numbers that windows and waits can be made of."""
    found = specs.read(spec, specs.default())
    assert len(found.problem) <= 4 * LONGEST_LINE
    assert "\n" not in found.problem
    assert 30 <= found.report_interval_seconds <= LONGEST_SECONDS
    assert 60 <= found.window_seconds <= LONGEST_SECONDS
    assert all(0 < seconds <= LONGEST_SECONDS and math.isfinite(seconds) for seconds in found.durations_seconds)
    assert found.memory_policy
    in_force(found.predict_policy, None)


@fuzz(status=objects({"metadata": {"name": "n"}, "spec": SPEC, "status": {"updateTime": "x", "conditions": []}}))
def test_node_metric(status: Json) -> None:
    """A NodeMetric decodes and comes back as it was, or is refused with the path of the field."""
    parsed = answer_or_refusal(lambda: from_json(NodeMetric, status), CodecError)
    if parsed is not None:
        again = from_json(NodeMetric, to_json(parsed))
        assert repr(again) == repr(parsed)


@fuzz(data=any_json())
def test_anything(data: Json) -> None:
    """JSON of any shape, in place of a policy, is judged and not stumbled over."""
    answer_or_refusal(lambda: from_json(PredictPolicy, data), CodecError)
