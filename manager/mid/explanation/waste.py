"""What of a node is wasted, as `kubectl headroom top nodes` and the web page say it."""


def waste(requested: float | None, peak: float | None, offered: float | None) -> float | None:
    """What Prod pods requested, are not predicted to need, and nobody is offered: max(requested - peak - offered, 0).

    10 requested, 4 predicted, 5 offered: 1 is wasted.

    Args:
        requested: what Prod pods on the node request; None: not known.
        peak: what Prod pods and the system are predicted to reach; None: it cannot be acted on, or is not known.
        offered: Mid resources that the Node offers; None: none.

    Returns:
        In the unit of what was given; None where it cannot be told.
    """
    return None if requested is None or peak is None else max(requested - peak - (offered or 0), 0)
