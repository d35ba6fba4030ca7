"""Pods, nodes and other objects as read from Kubernetes: parsed once, checked by field. No I/O, no clock."""
