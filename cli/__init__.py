"""`kubectl headroom`: reads live objects through the API server and prints them. It changes nothing in the cluster."""
