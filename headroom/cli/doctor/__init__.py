"""`kubectl headroom doctor`: what is wrong with an installation, or in the way of one, and what mends it."""
