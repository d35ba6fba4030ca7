"""Times as Kubernetes writes them."""

from datetime import UTC, datetime


def timestamp(seconds: float) -> str:
    """A time in whole seconds: "2026-07-24T12:00:00Z".

    Args:
        seconds: the time. [seconds since 1970]
    """
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
