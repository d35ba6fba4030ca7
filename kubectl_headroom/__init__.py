"""`kubectl headroom`: reads live objects through the API server and prints them; it changes nothing."""
