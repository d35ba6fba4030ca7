"""`kubectl headroom uninstall`: stops manager and scheduler and takes away what they have written."""
