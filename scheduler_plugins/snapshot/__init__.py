"""The cluster as numbers: the only place that reads Kubernetes objects. Decides nothing about where a pod goes."""
