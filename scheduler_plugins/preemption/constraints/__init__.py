"""What kube-scheduler's filters ask of a node, each prepared once for a pod. Pure: no I/O, no clock."""
