"""For each alert its firing case, its summary then, and a case without it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Case:
    """Series as promtool writes them, a value each minute, for four hours; the alert is evaluated at their end."""

    bad: Mapping[str, str]  # with these the alert fires, once
    good: Mapping[str, str]  # with these it does not
    summary: str
    labels: Mapping[str, str] = field(default_factory=dict)  # its labels, but for the name and the severity


ON_NODE: Final = {"node": "n1"}
_ACCURACY: Final = '{node="n1",class="prod",resource="cpu",horizon="24h"}'
_EXCEEDED: Final = f"headroom_agent_prediction_exceeded_ratio{_ACCURACY}"
_TARGET: Final = f"headroom_agent_prediction_target_ratio{_ACCURACY}"
_JUDGED: Final = f"headroom_agent_prediction_evaluated{_ACCURACY}"
_EXCESS: Final = f"headroom_agent_prediction_excess_max_ratio{_ACCURACY}"
_BEYOND: Final = "headroom_manager_mid_usage_beyond_requests"
_NODES: Final = 'headroom_manager_known_objects{kind="Node"}'


def _degraded(node: str, reason: str) -> str:
    return f'headroom_manager_mid_degraded{{node="{node}",reason="{reason}"}}'


def _hot(node: str, reason: str) -> str:
    return f'headroom_manager_hot_node{{node="{node}",reason="{reason}"}}'


def _of_node(metric: str, more: str = "") -> str:
    return f'{metric}{{node="n1"{more}}}'


def _requests(outcome: str) -> str:
    return f'headroom_scheduler_request_seconds_count{{verb="filter",outcome="{outcome}"}}'


def _bucket(bound: str) -> str:
    return f'headroom_scheduler_request_seconds_bucket{{verb="filter",outcome="answered",le="{bound}"}}'


def _provider(pod: str) -> str:
    labels = f'plugin="P",provider="Prometheus",pod="{pod}"'
    return f"headroom_scheduler_provider_last_answer_timestamp_seconds{{{labels}}}"


def _quota(level: str) -> str:
    return f'headroom_scheduler_quota_{level}{{quota_namespace="a",quota="q",resource="cpu"}}'


AGENT: Final[Mapping[str, Case]] = {
    "HeadroomAgentsMissing": Case(
        {_degraded("n1", "NoReport"): "1x240", _degraded("n2", "ReportExpired"): "1x240"},
        {_degraded("n1", "ColocationDisabled"): "1x240", _degraded("n2", "NoReport"): "1x100 _x140"},
        "2 nodes have no fresh report of their agent",
    ),
    "HeadroomReportOverdue": Case(
        {_of_node("headroom_agent_report_lag_seconds"): "0+60x240"},
        {_of_node("headroom_agent_report_lag_seconds"): "299x240"},
        "The agent of n1 runs, but its report is 4h 0m 0s overdue",
        ON_NODE,
    ),
    "HeadroomAgentRestarts": Case(
        {_of_node("headroom_agent_start_time"): "0+600x240"},
        {_of_node("headroom_agent_start_time"): "1x200 2x10 3x30"},
        "The agent of n1 started 60 times again within an hour",
        ON_NODE,
    ),
    "HeadroomAgentStepsFail": Case(
        {_of_node("headroom_agent_failures_total", ',step="node",error="OSError"'): "0+1x240"},
        {_of_node("headroom_agent_failures_total", ',step="node",error="OSError"'): "0x100 1x140"},
        "On n1 the agent's step node fails again and again: OSError",
        {"node": "n1", "step": "node", "error": "OSError"},
    ),
    "HeadroomAgentTicksLate": Case(
        {_of_node("headroom_agent_ticks_late_total"): "0+3x240"},
        {_of_node("headroom_agent_ticks_late_total"): "0+1x240"},
        "The agent of n1 skips measurements, because it is too slow",
        ON_NODE,
    ),
    "HeadroomStoreUnwritten": Case(
        {_of_node("headroom_agent_store_unwritten_ticks"): "0+60x240"},
        {_of_node("headroom_agent_store_unwritten_ticks"): "0x230 5x3 0x7"},
        "The agent of n1 cannot write its database",
        ON_NODE,
    ),
    "HeadroomTrainingStalled": Case(
        {_of_node("headroom_agent_last_training_timestamp_seconds"): "7200x240"},
        {_of_node("headroom_agent_last_training_timestamp_seconds"): "0+60x240"},
        "The agent of n1 has learned nothing for 2h 0m 0s",
        ON_NODE,
    ),
    "HeadroomCheckpointFails": Case(
        {_of_node("headroom_agent_checkpoint_failures_total"): "0x150 0+1x90"},
        {_of_node("headroom_agent_checkpoint_failures_total"): "7x240"},
        "The agent of n1 cannot save its histories",
        ON_NODE,
    ),
    "HeadroomReportFieldsDropped": Case(
        {_of_node("headroom_agent_report_dropped_fields"): "3x240"},
        {_of_node("headroom_agent_report_dropped_fields"): "0x240"},
        "The cluster's definition of NodeMetric drops fields that 1 agents report",
    ),
    "HeadroomPredictionsExceeded": Case(
        {_EXCEEDED: "0.08x240", _JUDGED: "200x240", _TARGET: "0.015x240"},
        {_EXCEEDED: "0.08x240", _JUDGED: "200x240", _TARGET: "0.05x240"},
        "On n1 Prod used more cpu than predicted, in 8% of the predictions",
        {"node": "n1", "resource": "cpu"},
    ),
    "HeadroomPredictionsFarExceeded": Case(
        {_EXCESS: "0.75x240"},
        {_EXCESS: "0.4x240"},
        "On n1 Prod used 75% more cpu than was predicted at most",
        {"node": "n1", "resource": "cpu"},
    ),
}

MANAGER: Final[Mapping[str, Case]] = {
    "HeadroomNoManagerLeads": Case(
        {'headroom_manager_leading{pod="a"}': "0x240"},
        {'headroom_manager_leading{pod="a"}': "0x240", 'headroom_manager_leading{pod="b"}': "1x240"},
        "No manager leads",
    ),
    "HeadroomSeveralManagersLead": Case(
        {'headroom_manager_leading{pod="a"}': "1x240", 'headroom_manager_leading{pod="b"}': "1x240"},
        {'headroom_manager_leading{pod="a"}': "1x237 0x3", 'headroom_manager_leading{pod="b"}': "0x237 1x3"},
        "2 managers write at the same time",
    ),
    "HeadroomConfigInvalid": Case(
        {'headroom_manager_config_valid{pod="a"}': "0x240"},
        {'headroom_manager_config_valid{pod="a"}': "1x240", 'headroom_manager_config_valid{pod="b"}': "1x240"},
        "The colocation config is wrong; the last good one is in force",
    ),
    "HeadroomConfigEntryErrors": Case(
        {"headroom_manager_config_entry_errors": "2x240"},
        {"headroom_manager_config_entry_errors": "0x240"},
        "2 faults in entries of nodeConfigs; those entries do not count",
    ),
    "HeadroomNodeMetricUndefined": Case(
        {"headroom_manager_nodemetric_defined": "0x240"},
        {"headroom_manager_nodemetric_defined": "1x240"},
        "The API server does not know NodeMetric",
    ),
    "HeadroomManyNodesDegraded": Case(
        {_NODES: "3x240", _degraded("n1", "ReportExpired"): "1x240"},
        {_NODES: "5x240", _degraded("n1", "ReportExpired"): "1x240", _degraded("n2", "ColocationDisabled"): "1x240"},
        "1 nodes publish nothing because of missing data",
    ),
    "HeadroomMidDeficit": Case(
        {_of_node("headroom_manager_mid_deficit", ',resource="memory"'): "1000x240"},
        {_of_node("headroom_manager_mid_deficit", ',resource="memory"'): "0x220 1000x20"},
        "Mid pods on n1 hold more memory than may be published, for half an hour",
        {"node": "n1", "resource": "memory"},
    ),
    "HeadroomMidPodsBeyondRequests": Case(
        {_of_node(_BEYOND, ',resource="memory"'): "1073741824x240"},
        {_of_node(_BEYOND, ',resource="memory"'): "0x220 1000x20", _of_node(_BEYOND, ',resource="cpu"'): "500x240"},
        "Mid pods on n1 use 1GiB of memory more than they requested, for half an hour",
        ON_NODE,
    ),
    "HeadroomMidPodsWithoutLimits": Case(
        {_of_node("headroom_manager_mid_pods_without_limits"): "3x240"},
        {_of_node("headroom_manager_mid_pods_without_limits"): "3x220 0x20"},
        "3 running Mid pods have no native limits",
    ),
    "HeadroomHotNodesWithoutTaint": Case(
        {_hot("n1", "ShareReached"): "1x240", _hot("n2", "ShareReached"): "1x240", _hot("n3", "Tainted"): "1x240"},
        {_hot("n1", "ShareReached"): "1x220 _x20", _hot("n2", "Tainted"): "1x240"},
        "2 hot nodes have no taint for half an hour (ShareReached)",
        {"reason": "ShareReached"},
    ),
    "HeadroomEvictionsRefused": Case(
        {'headroom_manager_mid_evictions_total{result="refused-by-budget"}': "0+1x240"},
        {'headroom_manager_mid_evictions_total{result="evicted"}': "0+1x240"},
        "The API server refused 30 evictions of Mid pods within half an hour (refused-by-budget)",
        {"result": "refused-by-budget"},
    ),
    "HeadroomManagerBehind": Case(
        {"headroom_manager_queue_nodes": "150x240"},
        {"headroom_manager_queue_nodes": "150x230 0x1 150x9"},
        "For a quarter of an hour at least 150 nodes have waited for the manager",
    ),
    "HeadroomWebhookCertificateExpires": Case(
        {"headroom_manager_webhook_certificate_expiry_timestamp_seconds": "100800x240"},
        {
            'headroom_manager_webhook_certificate_expiry_timestamp_seconds{pod="a"}': "0x240",
            'headroom_manager_webhook_certificate_expiry_timestamp_seconds{pod="b"}': "7776000x240",
        },
        "The webhook's certificate expires in 1d 0h 0m 0s",
    ),
}

SCHEDULER: Final[Mapping[str, Case]] = {
    "HeadroomExtenderBlind": Case(
        {'headroom_scheduler_snapshot_age_seconds{instance="i"}': "0+60x240"},
        {'headroom_scheduler_snapshot_age_seconds{instance="i"}': "170x240"},
        "The extender at i has had no response from the API server for 4h 0m 0s",
        {"instance": "i"},
    ),
    "HeadroomExtenderErrors": Case(
        {_requests("answered"): "0+90x240", _requests("error"): "0+10x240"},
        {_requests("answered"): "0+90x240", _requests("error"): "0+1x240", _requests("refused_all"): "0+50x240"},
        "More than a twentieth of kube-scheduler's requests to filter fail",
        {"verb": "filter"},
    ),
    "HeadroomExtenderSlow": Case(
        {_bucket("0.5"): "0+10x240", _bucket("1.0"): "0+20x240", _bucket("+Inf"): "0+20x240"},
        {_bucket("0.5"): "0+1000x240", _bucket("1.0"): "0+1001x240", _bucket("+Inf"): "0+1001x240"},
        "1 % of kube-scheduler's requests to filter take 990ms and more",
        {"verb": "filter"},
    ),
    "HeadroomExtenderTooSlow": Case(
        {'headroom_scheduler_slow_requests_total{verb="filter"}': "0+1x240"},
        {'headroom_scheduler_slow_requests_total{verb="filter"}': "7x240"},
        "kube-scheduler did not wait for 10 answers to filter",
        {"verb": "filter"},
    ),
    "HeadroomPluginFails": Case(
        {'headroom_scheduler_plugin_errors_total{plugin="P",step="score"}': "0+1x240"},
        {'headroom_scheduler_plugin_errors_total{plugin="P",step="score"}': "5x240"},
        "The plugin P fails at score",
        {"plugin": "P", "step": "score"},
    ),
    "HeadroomNoSchedulerLeads": Case(
        {'headroom_scheduler_leads{pod="a"}': "0x240", 'headroom_scheduler_leads{pod="b"}': "0x240"},
        {'headroom_scheduler_leads{pod="a"}': "0x240", 'headroom_scheduler_leads{pod="b"}': "1x240"},
        "0 replicas of the scheduler lead, and it should be one",
    ),
    "HeadroomUnreadableObjects": Case(
        {'headroom_scheduler_unreadable_objects{instance="i"}': "2x240"},
        {'headroom_scheduler_unreadable_objects{instance="i"}': "0x240"},
        "The extender at i cannot understand 2 objects",
        {"instance": "i"},
    ),
    "HeadroomPodsWaitForLoad": Case(
        {'headroom_scheduler_waiting_pods_by_cause{cause="load"}': "12x240"},
        {'headroom_scheduler_waiting_pods_by_cause{cause="quota"}': "12x240"},
        "12 pods wait although their requests fit, because all nodes are hot",
    ),
    "HeadroomWaitingOverflow": Case(
        {"headroom_scheduler_waiting_overflow": "12x240"},
        {"headroom_scheduler_waiting_overflow": "0x240"},
        "12 refused pods are not remembered, as too many wait",
    ),
    "HeadroomWakePatchesRefused": Case(
        {'headroom_scheduler_wake_patches_total{result="forbidden"}': "0+1x240"},
        {'headroom_scheduler_wake_patches_total{result="ok"}': "0+1x240"},
        "Pods that could run are not requeued: the API server answers forbidden",
        {"result": "forbidden"},
    ),
    "HeadroomProviderSilent": Case(
        {_provider("a"): "10800x240"},
        {_provider("a"): "60x240", _provider("b"): "0+60x240"},
        "The provider Prometheus of P has not responded for 1h 0m 0s",
        {"plugin": "P", "provider": "Prometheus"},
    ),
    "HeadroomQuotaPassedOver": Case(
        {"headroom_scheduler_quotas_passed_over": "1x240"},
        {"headroom_scheduler_quotas_passed_over": "0x240"},
        "1 ElasticQuotas are not in force, because their namespace has an older one",
    ),
    "HeadroomQuotaOverMax": Case(
        {_quota("used"): "5x240", _quota("max"): "4x240"},
        {_quota("used"): "4x240", _quota("max"): "4x240"},
        "a uses more cpu than its quota's max",
        {"quota_namespace": "a", "resource": "cpu"},
    ),
    "HeadroomReclaimStuck": Case(
        {"headroom_scheduler_reclaim_pending_pods": "3x240"},
        {"headroom_scheduler_reclaim_pending_pods": "3x225 0x1 3x14"},
        "For half an hour at least 3 pods with a quota have found no node, and no pod is evicted for them",
    ),
}

CASES: Final[Mapping[str, Case]] = {**AGENT, **MANAGER, **SCHEDULER}
