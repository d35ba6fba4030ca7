"""What tests of several packages share: factories of objects, an API server in memory, waiting."""
