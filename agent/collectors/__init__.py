"""Collectors, one file each, and the registry that names them. They read, they never store."""
