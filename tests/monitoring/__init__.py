"""Dashboards and alerts against what the services export."""
