"""Which Mid pods go when a node has sold more than it has, and when. Pure: no I/O, no clock, no kopf.

`evidence` says what is really short and for how long, `selection` which pods would end it, `guard` and `rates` which of
them must wait, `words` what people are told. Only `manager.reconcile.steps.eviction` asks the API server for anything.
"""
