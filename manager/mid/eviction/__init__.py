"""Which Mid pods are evicted from an overcommitted node, and when. Pure: no I/O, no clock, no kopf.

`shortage` calculates what is short and for how long, `selection` which pods would end it, `backoff` and `rates` which
of them must wait, `text` the event notes. Only `manager.reconcile.steps.eviction` calls the API server.
"""
