"""The Mid pods of the cluster: amounts that are probably meant in another unit."""

from collections.abc import Iterator

from kubectl_headroom.doctor.cluster import Cluster
from kubectl_headroom.doctor.finding import Finding, count, named, ok, warning
from kubectl_headroom.doctor.permissions import ALL_PODS


def check(cluster: Cluster) -> Iterator[Finding]:
    """Report Mid pods with amounts such as `kubernetes.io/mid-cpu: 500m`, which is one milli-core."""
    pods = [pod for pod in cluster.list(ALL_PODS) if pod is not None]
    implausible = {
        pod.key: pod.implausible_amounts for pod in sorted(pods, key=lambda pod: pod.key) if pod.implausible_amounts
    }
    if not implausible:
        yield ok(f"The amounts of {count(len(pods), 'Mid pod')} are plausible.")
        return
    texts = named([f"{key} ({amounts[0]})" for key, amounts in implausible.items()])
    message = f"{count(len(implausible), 'Mid pod')} with a probably wrong amount of a Mid resource: {texts}."
    yield warning(message, "correct the amounts in the templates of these pods", list(implausible))
