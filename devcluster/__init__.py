"""A real Kubernetes on this machine for tests, demo and benchmarks. Imports nothing of the services; not shipped."""
