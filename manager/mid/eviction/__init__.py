"""Which Mid pods are evicted from an overcommitted node, and when. Pure: no I/O, no clock, no kopf."""
