"""Reads the Prometheus text format."""


def value_of(text: str, name: str) -> float:
    """The value of a metric; 0 when it is not there.

    Args:
        text: what /metrics answers.
        name: the metric, with its labels in braces where it has some.
    """
    return next((float(line[len(name) + 1 :]) for line in text.splitlines() if line.startswith(f"{name} ")), 0.0)
