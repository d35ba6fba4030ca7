"""Config -> inputs -> Mid formula -> publish decision -> Node. Only `handlers` and `operator` know kopf."""
