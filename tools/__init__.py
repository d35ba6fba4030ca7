"""Tools for developers: dev cluster, benchmarks, soak tests, demo and release."""
