"""The functions and types of the manager that `kubectl headroom` may import. None of them does I/O."""

from manager.calculators.base import EXPIRED
from manager.config.changes import Change, NodeMetadata, compare, node_metadata
from manager.config.findings import ConfigFinding
from manager.config.in_force import InForce, Origin, at_start
from manager.config.merge import DEFAULT as DEFAULT_STRATEGY
from manager.config.overlaps import Overlap, on_nodes
from manager.config.overlaps import named as overlap_names
from manager.config.parse import Review, parse_config, parse_strategy, review
from manager.config.state import sentences as config_sentences
from manager.hot_nodes.load import effects_on as hot_effects
from manager.hot_nodes.text import state as hot_state
from manager.inputs import Amounts, NodeReport, PodInputs, Resource
from manager.mid.explanation import amounts, document, tables, terms
from manager.mid.explanation.explanation import ConfigState, Explanation, ObservedNode, config_state, explain
from manager.mid.explanation.findings import findings
from manager.mid.explanation.lease import Lease, lease_of
from manager.mid.explanation.node_metric import Amount, Report, age
from manager.mid.explanation.node_metric import read as read_node_metric
from manager.mid.explanation.waste import waste
from manager.mid.explanation.what_if import SOURCE as WHAT_IF_SOURCE
from manager.mid.explanation.what_if import TriedConfig, WhatIf
from manager.mid.node_filter import NodeFilter
from manager.mid.pod_limits import PodLimits
from manager.profiles.pod_schema import PATH as PROFILE_POD_SCHEMA
from manager.profiles.pod_schema import PodSchema
from manager.profiles.profile import Profile
from manager.profiles.profile import condition_message as profile_condition
from manager.profiles.profile import read as read_profile
from manager.profiles.state import Profiles
from manager.profiles.webhooks import changes_pods_of_koordinator, excluded_namespaces
from manager.profiles.webhooks import name_of as profile_webhook

__all__ = [
    "DEFAULT_STRATEGY",
    "EXPIRED",
    "PROFILE_POD_SCHEMA",
    "WHAT_IF_SOURCE",
    "Amount",
    "Amounts",
    "Change",
    "ConfigFinding",
    "ConfigState",
    "Explanation",
    "InForce",
    "Lease",
    "NodeFilter",
    "NodeMetadata",
    "NodeReport",
    "ObservedNode",
    "Origin",
    "Overlap",
    "PodInputs",
    "PodLimits",
    "PodSchema",
    "Profile",
    "Profiles",
    "Report",
    "Resource",
    "Review",
    "TriedConfig",
    "WhatIf",
    "age",
    "amounts",
    "at_start",
    "changes_pods_of_koordinator",
    "compare",
    "config_sentences",
    "config_state",
    "document",
    "excluded_namespaces",
    "explain",
    "findings",
    "hot_effects",
    "hot_state",
    "lease_of",
    "node_metadata",
    "on_nodes",
    "overlap_names",
    "parse_config",
    "parse_strategy",
    "profile_condition",
    "profile_webhook",
    "read_node_metric",
    "read_profile",
    "review",
    "tables",
    "terms",
    "waste",
]
