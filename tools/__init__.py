"""What only developers run: dev cluster, benchmarks, soak tests, demo and release."""
