"""Sound inputs, which the tests then damage."""

from typing import Any, Final

STAT: Final = """cpu  1393280 32966 572056 13343292 6130 0 17875 0 23933 0
cpu0 693280 16966 272056 6643292 3130 0 8875 0 11933 0
cpu1 700000 16000 300000 6700000 3000 0 9000 0 12000 0
intr 87054326 9 0 0 0 0 0 0 0 1
ctxt 132487520
btime 1753000000
processes 86031
"""
MEMINFO: Final = """MemTotal:        8148444 kB
MemFree:         1234567 kB
MemAvailable:    4567890 kB
Buffers:          123456 kB
Cached:          2345678 kB
HugePages_Total:       0
Hugepagesize:       2048 kB
"""
PRESSURE: Final = """some avg10=0.22 avg60=0.17 avg300=1.11 total=58761459
full avg10=0.00 avg60=0.13 avg300=0.96 total=48762324
"""
V1_USAGE: Final = "190832178453\n"
V2_CPU_STAT: Final = """usage_usec 7154213
user_usec 3154213
system_usec 4000000
nr_periods 120
nr_throttled 30
throttled_usec 450000
"""
V1_CPU_STAT: Final = "nr_periods 120\nnr_throttled 30\nthrottled_time 450000000\n"
V2_MEMORY_STAT: Final = """anon 2097152
file 8192000
inactive_anon 1048576
active_anon 1048576
inactive_file 4096000
active_file 4096000
unevictable 0
"""
V1_MEMORY_STAT: Final = "cache 4096\nrss 8192\n" + "".join(f"total_{line}\n" for line in V2_MEMORY_STAT.splitlines())
CPU_MAX: Final = "150000 100000\n"

POD_CGROUPS: Final = (
    "pod0f7b5cd5-2f3a-44b2-9d4e-3c3a0a5f7c11",
    "kubepods-burstable-pod0f7b5cd5_2f3a_44b2_9d4e_3c3a0a5f7c11.slice",
    "kubepods-pod9e0ea92a4b5cb3a9d4e3c3a0a5f7c11a.slice",
    "cri-containerd-3e3c1b8f6d2a4c5e9f7a8b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e.scope",
    "docker-3e3c1b8f6d2a4c5e9f7a8b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e.scope",
    "crio-conmon-3e3c1b8f6d2a.scope",
    "kubepods.slice",
    "kubepods",
)

POD: Final[dict[str, Any]] = {
    "metadata": {
        "name": "cart-7f9c4d5b6-x2x9z",
        "namespace": "shop",
        "uid": "0f7b5cd5-2f3a-44b2-9d4e-3c3a0a5f7c11",
        "creationTimestamp": "2026-07-20T10:00:00Z",
        "labels": {"koordinator.sh/priority-class": "koord-prod", "koordinator.sh/qosClass": "LS"},
        "annotations": {"kubernetes.io/config.mirror": "9e0ea92a"},
        "ownerReferences": [
            {"kind": "ReplicaSet", "name": "cart-7f9c4d5b6", "controller": True},
            {"apiVersion": "v1", "kind": "Node", "name": "worker"},
        ],
    },
    "spec": {
        "nodeName": "worker",
        "priority": 9500,
        "overhead": {"cpu": "10m"},
        "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "2Gi"}},
        "containers": [
            {"name": "app", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}},
            {"name": "mid", "resources": {"requests": {"kubernetes.io/mid-cpu": "500"}}},
        ],
        "initContainers": [{"name": "mesh", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}],
    },
    "status": {
        "phase": "Running",
        "qosClass": "Burstable",
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
        "containerStatuses": [
            {"name": "app", "allocatedResources": {"cpu": "250m"}, "resources": {"requests": {"cpu": "250m"}}},
        ],
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
    },
}  # fmt: skip

NODE: Final[dict[str, Any]] = {
    "metadata": {
        "name": "worker",
        "annotations": {
            "node.koordinator.sh/raw-allocatable": '{"cpu": "7", "memory": "14Gi"}',
            "node.koordinator.sh/reservation": '{"resources": {"cpu": "1", "memory": "1Gi"}, "reservedCPUs": "0-1,4"}',
        },
    },
    "status": {
        "capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"},
        "allocatable": {"cpu": "7800m", "memory": "15Gi", "pods": "110"},
    },
}

POLICY: Final[dict[str, Any]] = {
    "resourceDiffThresholdPercent": 5,
    "checkIntervalSeconds": 20,
    "forceUpdateIntervalSeconds": 600,
    "coldStartPeriodSeconds": 86400,
    "reclaimRatioPercent": 100,
    "safetyMarginPercent": 10,
    "model": "nsigma-v2",
    "parameters": {"n": 3, "capAtHighest": True},
    "cpu": {"model": "max", "of": [{"model": "nsigma-v1", "parameters": {"n": 2}}, {"model": "borg-default"}]},
    "memory": {"model": "sum-max", "parameters": {"windowDays": 3}, "safetyMarginPercent": 20},
}
SPEC: Final[dict[str, Any]] = {
    "metricCollectPolicy": {
        "aggregateDurationSeconds": 300,
        "reportIntervalSeconds": 60,
        "nodeAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
        "nodeMemoryCollectPolicy": "usageWithoutPageCache",
    },
    "predictPolicy": POLICY,
}

CONFIG: Final[dict[str, Any]] = {
    "enable": True,
    "metricAggregatePolicy": {"durations": ["5m", "10m0s"]},
    "metricReportIntervalSeconds": 60,
    "degradeTimeMinutes": 15,
    "resourceDiffThreshold": 0.1,
    "midCPUThresholdPercent": 80,
    "midUnallocatedPercent": 20,
    "midReclaimMode": "static",
    "midPolicy": "designMixed",
    "midEviction": {"mode": "dry-run", "afterSeconds": 300, "maxPerMinute": 10},
    "nodePredictPolicy": POLICY,
    "extensions": {"any": ["thing"]},
    "nodeConfigs": [
        {
            "name": "spot",
            "nodeSelector": {"matchLabels": {"pool": "spot"}},
            "mode": "shadow",
            "midStaticCPUReservedPercent": 9,
        },
        {
            "name": "rest",
            "nodeSelector": {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["spot"]}]},
            "enable": False,
        },
    ],
}
"""A colocation config that uses every kind of field."""
REPORT: Final[dict[str, Any]] = {
    "updateTime": "2027-01-15T07:59:50Z",
    "nodeMetric": {
        "nodeUsage": {"resources": {"cpu": "3100m", "memory": "6Gi"}},
        "systemUsage": {"resources": {"cpu": "300m", "memory": "1Gi"}},
        "aggregatedNodeUsages": [{"usage": {"p95": {"resources": {"cpu": "4"}}}, "duration": "5m0s"}],
    },
    "podsMetric": [{"name": "cart", "namespace": "shop", "podUsage": {"resources": {"cpu": "1", "memory": "1Gi"}}}],
    "hostApplicationMetric": [{"name": "db", "priority": "koord-prod", "usage": {"resources": {"cpu": "1"}}}],
    "prodReclaimableMetric": {"resource": {"resources": {"cpu": "2500m", "memory": "4Gi"}}},
    "prediction": {
        "time": "2027-01-15T07:59:55Z",
        "classes": [
            {"name": "node", "usage": {"cpu": "3200m", "memory": "6Gi"}},
            {"name": "sys", "usage": {"cpu": "300m", "memory": "1Gi"}},
            {"name": "prod", "usage": {"cpu": "2", "memory": "4Gi"}},
            {"name": "mid", "usage": {"cpu": "800m", "memory": "1Gi"}},
        ],
    },
    "conditions": [{"type": "Collecting", "status": "True", "reason": "Measuring", "message": ""}],
}
"""The status of a NodeMetric."""
