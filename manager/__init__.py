"""Config -> calculate -> patch: what a node may sell as Mid. Only `handlers` and `operator` know kopf."""
