"""`kubectl headroom profile`: the ClusterColocationProfiles, and the change of a pod by them."""
