"""Peaks by class and Reclaimable, from the histories and the policy in force; and their accuracy. No I/O."""
