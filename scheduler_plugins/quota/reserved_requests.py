"""What kube-scheduler sets aside for a pod on its node, also while the pod is being resized in place."""

from collections.abc import Mapping
from typing import Any

from headroom.cluster.pod import pod_requests
from scheduler_plugins.quota.amounts import is_counted
from scheduler_plugins.snapshot.units import INT64_MAX, units


def reserved_requests(pod: Mapping[str, Any]) -> dict[str, int]:
    """What a pod takes of its node's allocatable, one pod in `pods` included; resizes: `headroom.cluster.resize`.

    Returns:
        Amounts by resource name. [milli-cores for cpu, else base units]

    Raises:
        QuantityError: a request is not a quantity.
    """
    amounts = {name: units(name, amount, INT64_MAX) for name, amount in pod_requests(pod).items() if is_counted(name)}
    return {**amounts, "pods": 1}
