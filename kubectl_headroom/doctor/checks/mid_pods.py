"""The Mid pods of the cluster: amounts in another unit, native requests and limits, and usage beyond requests."""

from collections.abc import Iterator

from kubectl_headroom.doctor.cluster import Cluster
from kubectl_headroom.doctor.finding import Finding, count, named, ok, warning
from kubectl_headroom.doctor.permissions import ALL_PODS, NODE_METRICS
from manager.api import PodLimits

_FIX = "correct the amounts in the templates of these pods"
_ADD_LIMITS = "add native requests of 0 and native limits to every container in the templates of these pods"


def check(cluster: Cluster) -> Iterator[Finding]:
    """Report Mid pods with wrong amounts, with native requests, without native limits, or with too much usage."""
    pods = sorted((pod for pod in cluster.list(ALL_PODS) if pod is not None), key=lambda pod: pod.key)
    implausible = {pod.key: pod.implausible_amounts for pod in pods if pod.implausible_amounts}
    if implausible:
        texts = named([f"{key} ({amounts[0]})" for key, amounts in implausible.items()])
        message = f"{count(len(implausible), 'Mid pod')} with a probably wrong amount of a Mid resource: {texts}."
        yield warning(message, _FIX, list(implausible))
    reserving = [pod.key for pod in pods if pod.inputs.requests]
    if reserving:
        message = (
            f"{count(len(reserving), 'Mid pod')} with native requests, which reserve resources: {named(reserving)}."
        )
        yield warning(message, _ADD_LIMITS, reserving)
    keys = {pod.key for pod in pods}
    usage = {key: used for metric in cluster.list(NODE_METRICS) for key, used in metric.pod_usage(keys).items()}
    limits = PodLimits.of([pod.inputs for pod in pods], usage)
    if limits.unlimited:
        unlimited = f"{count(len(limits.unlimited), 'Mid pod')} without native limits"
        message = f"{unlimited}, which can use all that is idle: {named(limits.unlimited_texts())}."
        yield warning(message, _ADD_LIMITS, [pod.key for pod in limits.unlimited])
    if limits.beyond:
        beyond = f"{count(len(limits.beyond), 'Mid pod')} with more usage than requests"
        message = f"{beyond}: {named(limits.beyond_texts())}."
        yield warning(message, _FIX, [pod.key for pod, _ in limits.beyond])
    if not (implausible or reserving or limits.unlimited or limits.beyond):
        yield ok(f"The amounts of {count(len(pods), 'Mid pod')} are plausible, and all have native limits.")
