"""A file a group of checks. Each returns its findings about a cluster; none prints, writes or changes anything."""
