"""Scheduler plugins: snapshot, filter, score, respond. Never writes to the cluster."""
