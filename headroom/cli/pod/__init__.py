"""`kubectl headroom explain pod`: where a pod is and why, or why nowhere; what it uses and who is charged for it."""
