"""Elastic quotas: what namespaces are guaranteed, may use at most, and use. Pure: no I/O, no clock."""
