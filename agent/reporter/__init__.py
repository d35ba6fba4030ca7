"""From numbers to a NodeMetric, and from there to the API server."""
