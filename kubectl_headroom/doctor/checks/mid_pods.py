"""The Mid pods of the cluster: amounts in another unit, native requests and limits, and usage beyond requests."""

from collections.abc import Iterator

from crds.names import LABEL_TIER
from kubectl_headroom.doctor.cluster import Cluster
from kubectl_headroom.doctor.finding import Finding, count, named, ok, warning
from kubectl_headroom.doctor.objects import MidPod, UnbandedPod, labels, name
from kubectl_headroom.doctor.permissions import ALL_NAMESPACES, ALL_PODS, NODE_METRICS
from manager.api import PodLimits

_FIX = "correct the amounts in the templates of these pods"
CREATE_AGAIN = "create these pods again, such as with kubectl rollout restart; those that cannot be translated stay"
_ADD_LIMITS = "add native requests of 0 and native limits to every container in the templates of these pods"


def check(cluster: Cluster) -> Iterator[Finding]:
    """Report Mid pods with wrong amounts, with native requests, without native limits, or with too much usage."""
    pods = sorted((pod for pod in cluster.list(ALL_PODS) if isinstance(pod, MidPod)), key=lambda pod: pod.key)
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


def namespaces(cluster: Cluster) -> Iterator[Finding]:
    """Report pods of Mid namespaces that are not Mid: older than the label, created without a manager, or unchanged."""
    mid_namespaces = {name(item) for item in cluster.list(ALL_NAMESPACES) if labels(item).get(LABEL_TIER) == "mid"}
    pods = (pod for pod in cluster.list(ALL_PODS) if isinstance(pod, UnbandedPod))
    keys = sorted(pod.key for pod in pods if pod.namespace in mid_namespaces)
    if keys:
        message = f"{count(len(keys), 'pod')} in a namespace with {LABEL_TIER}=mid, but not Mid: {named(keys)}."
        yield warning(message, CREATE_AGAIN, keys)
    else:
        yield ok(f"Every pod of {count(len(mid_namespaces), 'Mid namespace')} is Mid or of a stated band.")
