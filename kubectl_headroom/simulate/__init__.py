"""`kubectl headroom simulate`: the scheduler plugins' result for a pod now. Reads only; writes nothing."""
