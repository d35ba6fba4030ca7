"""`kubectl headroom config`: judges a colocation config, and compares it with what is in force."""
