"""Shell completion: what can stand next; asks the cluster for names, and is silent where that fails."""
