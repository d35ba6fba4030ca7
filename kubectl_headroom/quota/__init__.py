"""`kubectl headroom quota`: the usage of quotas, borrowing and lending, and checks of their status."""
