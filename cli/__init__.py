"""`kubectl headroom`: reads live objects through the API server and prints them. Only `uninstall` changes the cluster."""
