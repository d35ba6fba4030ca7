"""The built-in web page: usage, prediction and Mid resources of the cluster and each node. Read-only."""
