"""`kubectl headroom explain pod`: a pod's node or the reason for none, its usage, and its quota."""
