"""What of a node is wasted, as `kubectl headroom top nodes` and the web page say it."""


def waste(requested: float | None, peak: float | None, published: float | None) -> float | None:
    """What Prod pods requested, are not predicted to need, and is not published: max(requested - peak - published, 0).

    10 requested, 4 predicted, 5 published: 1 is wasted.
    None where it cannot be told, as of a peak that cannot be acted on. In the unit of what was given.
    """
    return None if requested is None or peak is None else max(requested - peak - (published or 0), 0)
