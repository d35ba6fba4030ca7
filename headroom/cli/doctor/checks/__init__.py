"""A file a group of checks. Each returns what it finds in a cluster; none prints, writes or changes anything."""
