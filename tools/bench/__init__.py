"""Measurements beside their budgets and references. Nothing here passes or fails: the reader evaluates."""
