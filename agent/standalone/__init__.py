"""Without a cluster: the same NodeMetric for people, on a terminal, on standard output and over HTTP. Sends nothing."""
