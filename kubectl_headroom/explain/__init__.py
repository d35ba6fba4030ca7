"""`kubectl headroom explain`: reads live objects, calculates as the manager does, and prints the reasons."""
