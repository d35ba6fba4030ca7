"""Who has to leave for a pod that found no node: a pure decision."""
