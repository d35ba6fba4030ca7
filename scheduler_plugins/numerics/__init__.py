"""Formulas. Arrays in, arrays out: no clocks, no Kubernetes, no logging."""
