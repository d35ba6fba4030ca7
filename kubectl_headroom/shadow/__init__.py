"""`kubectl headroom shadow`: what nodes in shadow mode would have published."""
