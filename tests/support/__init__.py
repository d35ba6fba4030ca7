"""Shared helpers of the tests of several packages: factories of objects, an API server in memory, waiting."""
