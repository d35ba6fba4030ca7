"""One file a group of checks. Each asks the site and says what it finds; none prints, writes or changes anything."""
