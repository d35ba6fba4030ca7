"""`kubectl headroom quota`: who uses what of whose share, why a pod waits, and whether the books are right."""
