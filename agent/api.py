"""The functions and types of the agent that `kubectl headroom backtest` may import. None of them does I/O."""

from agent.numerics.arrays import BoolArray, FloatArray, IntArray
from agent.numerics.history import MINIMUM_EFFECTIVE_SAMPLES, ResourceHistory, cpu_history, memory_history
from agent.numerics.peaks import SLOT_SECONDS
from agent.pods import PodRef
from agent.prediction.policy import PATH as POLICY_PATH
from agent.prediction.policy import ResourceModel, WorkloadHistoryRule, resolve
from agent.predictors import ENTRY_POINT_GROUP, PREDICTORS, PolicyError
from agent.predictors.base import DAY_SECONDS, MODEL_FAILURES, WEEK_DAYS, is_sparse, whole_percentiles
from agent.series_index import SeriesIndex, SeriesIndexLimits

__all__ = [
    "DAY_SECONDS",
    "ENTRY_POINT_GROUP",
    "MINIMUM_EFFECTIVE_SAMPLES",
    "MODEL_FAILURES",
    "POLICY_PATH",
    "PREDICTORS",
    "SLOT_SECONDS",
    "WEEK_DAYS",
    "BoolArray",
    "FloatArray",
    "IntArray",
    "PodRef",
    "PolicyError",
    "ResourceHistory",
    "ResourceModel",
    "SeriesIndex",
    "SeriesIndexLimits",
    "WorkloadHistoryRule",
    "cpu_history",
    "is_sparse",
    "memory_history",
    "resolve",
    "whole_percentiles",
]
