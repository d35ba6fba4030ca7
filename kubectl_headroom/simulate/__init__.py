"""`kubectl headroom simulate`: what our scheduler plugins would say of a pod now. Reads only; writes nothing."""
