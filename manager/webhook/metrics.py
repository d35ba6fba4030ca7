"""The webhook's metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from manager.metrics import PREFIX


class WebhookMetrics:
    """Metrics of the webhook.

    Args:
        registry: where they are shown.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reviews = Counter(
            f"{PREFIX}_webhook_reviews",
            "Edits of the config and of profiles that API servers sent for review; unchecked ones were admitted",
            ["result"],
            registry=registry,
        )
        """Reviews by result: allowed, refused, unchecked, malformed (no review, or more than can be read)."""
        self.pods = Counter(
            f"{PREFIX}_webhook_pods",
            "New pods of Mid namespaces and of profiles that API servers sent; all were admitted",
            ["result"],
            registry=registry,
        )
        """Pods by result: translated, unchanged, failed."""
        self.profiles = Gauge(
            f"{PREFIX}_colocation_profiles", "ClusterColocationProfiles", ["in_force"], registry=registry
        )
        """Profiles by whether they change pods: true, false."""
        self.certificate_ends = Gauge(
            f"{PREFIX}_webhook_certificate_expiry_timestamp_seconds",
            "Until when the certificate that this replica serves is valid, 0 without one [unix s]",
            registry=registry,
        )
        """End of the certificate."""
        self.rotations = Counter(
            f"{PREFIX}_webhook_certificates_issued", "Certificates that this replica made", registry=registry
        )
        """Certificates made."""
