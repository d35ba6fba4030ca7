"""The functions and types of the scheduler's plugins that `kubectl headroom` may import. None of them does I/O."""

from scheduler_plugins.extender.service import Mode
from scheduler_plugins.framework.cycle import Cycle, PluginError, rounded
from scheduler_plugins.framework.plugin import SourcedPlugin
from scheduler_plugins.plugins.capacity_scheduling import NAME as CAPACITY_SCHEDULING
from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling
from scheduler_plugins.plugins.capacity_scheduling import sentence as refusal_sentence
from scheduler_plugins.preemption.fit import FitModel
from scheduler_plugins.preemption.selection.decide import Decision, Undecided, decide
from scheduler_plugins.profile import DEFAULT_PROFILE, Profile, ProfileError, load_profile, parse_profile
from scheduler_plugins.quota.admission import accounts, refusal
from scheduler_plugins.quota.amounts import (
    CORE,
    NOTHING,
    UNLIMITED,
    Amounts,
    amounts_of,
    in_bytes,
    is_counted,
    is_extended,
    minus,
    plus,
    quantity,
)
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.ledger import QuotaLedger
from scheduler_plugins.quota.nominations import Nomination
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import MaxMissing, Quota
from scheduler_plugins.quota.status.findings import claimed_devices
from scheduler_plugins.snapshot.arrays import FloatArray, Nodes
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.source import Source
from scheduler_plugins.snapshot.watch import LIVE_PODS

__all__ = [
    "CAPACITY_SCHEDULING",
    "CORE",
    "DEFAULT_PROFILE",
    "LIVE_PODS",
    "NOTHING",
    "UNLIMITED",
    "Amounts",
    "CapacityScheduling",
    "ClusterCache",
    "Cycle",
    "Decision",
    "FitModel",
    "FloatArray",
    "MaxMissing",
    "Mode",
    "Nodes",
    "Nomination",
    "PluginError",
    "PodRequest",
    "Profile",
    "ProfileError",
    "Quota",
    "QuotaCluster",
    "QuotaLedger",
    "QuotaPod",
    "Source",
    "SourcedPlugin",
    "Undecided",
    "accounts",
    "amounts_of",
    "claimed_devices",
    "decide",
    "in_bytes",
    "is_counted",
    "is_extended",
    "load_profile",
    "minus",
    "parse_profile",
    "plus",
    "quantity",
    "refusal",
    "refusal_sentence",
    "rounded",
]
