"""`kubectl headroom config`: checks a colocation config, and compares it with the one in force."""
