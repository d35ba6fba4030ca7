"""Calls plugins and combines their results. Knows no plugin, no HTTP and no Kubernetes object."""
