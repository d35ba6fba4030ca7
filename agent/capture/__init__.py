"""Records of a machine's files for bug reports, and measuring such a record as the agent would."""
