"""`kubectl headroom`: reads live objects through the API server and prints them; `uninstall` alone changes anything."""
