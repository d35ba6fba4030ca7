"""`kubectl headroom doctor`: faults of an installation, or obstacles to one, with fixes."""
