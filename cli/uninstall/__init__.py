"""`kubectl headroom uninstall`: stops the manager and takes away what it has written."""
