"""ClusterColocationProfiles: their faults, the pods that they match, and the change of a pod. No I/O."""
