"""The waste of a node, as `kubectl headroom top nodes` and the web page show it."""


def waste(requested: float | None, peak: float | None, published: float | None) -> float | None:
    """Return the part of the Prod requests that is neither needed nor published: max(requested - peak - published, 0).

    10 requested, 4 predicted, 5 published: 1 is wasted.
    None where it is unknown, as without a usable peak. In the unit of the arguments.
    """
    return None if requested is None or peak is None else max(requested - peak - (published or 0), 0)
