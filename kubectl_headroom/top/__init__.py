"""`kubectl headroom top`: what nodes and pods use."""
