"""Formulas. Numpy in, numpy out: no clocks, no Kubernetes, no logging, no files."""
