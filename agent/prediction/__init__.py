"""From what was learned to peaks by class and Reclaimable, by the policy in force; and how good that was. No I/O."""
