"""The Mid resource of a node: when to publish it, which pods are evicted, and the explanation. No I/O, no clock."""
